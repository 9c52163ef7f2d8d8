// Package crash tries the real server binary: killed, frozen, on a full and on a read-only disk, and through power cuts, always under
// load. What its users were told is recorded, and must be true in the end.
package crash
