// Package pool keeps processes that are used again and again: the contexts of package script, and the processes of package
// wasi. They are its members. It starts them as they are needed, and there are at most Most at a time.
//
//	Acquire ──► waits for a place ──► starts ──► busy ──Release──► idle
//	   │                                          ▲ │               │ │
//	   └────────── one that fits is idle ─────────┼─┼───────────────┘ │
//	                                              │ └──► ends ◄───────┘
//
// A member has its place from its start until nothing of it is left. An idle one ends if it is not used for as long as
// Release says, if it is not usable any more, or if its place is needed for one that fits. Of several idle members that fit,
// the one that was used last is used next, so that the others end.
//
// # Files
//
//	pool.go  Pool
//
// Not for: how a process is started, used and ended (packages script, wasi), or what it may reach (package sandbox).
package pool
