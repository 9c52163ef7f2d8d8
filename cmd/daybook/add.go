package main

import "github.com/spf13/cobra"

func newAdd() *cobra.Command { return &cobra.Command{Use: "add"} }
