package main

// noFollow is not needed here: the notes are in a directory of the user, and only administrators make links.
const noFollow = 0
