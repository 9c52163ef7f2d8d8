// Package pool keeps processes for reuse. Its members are the contexts of package script and the processes of package
// wasi. It starts members on demand, at most Most at a time.
//
//	Acquire ──► waits for a place ──► starts ──► busy ──Release──► idle
//	   │                                          ▲ │               │ │
//	   └────────── one that fits is idle ─────────┼─┼───────────────┘ │
//	                                              │ └──► ends ◄───────┘
//
// A member occupies its place from its start until every process of it has ended. The pool ends an idle member if
// nobody has used it for the time that Release set, if it is no longer usable, or if a member that fits needs its
// place. If several idle members fit, the pool takes the one that was used last, so that members it does not need time
// out.
//
// Not for: starting, using and ending a process (packages script, wasi), or its permissions (package sandbox).
package pool
