;; exits with 5 by its default export, and with 6 by _start, which is not run then
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "") (call $exit (i32.const 5)))
  (func (export "_start") (call $exit (i32.const 6))))
