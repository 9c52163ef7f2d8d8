;; exits with fib(10) * calls(), which is 55 in each run
(module
  (import "fib" "fib" (func $fib (param i32) (result i32)))
  (import "fib" "calls" (func $calls (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start") (call $exit (i32.mul (call $fib (i32.const 10)) (call $calls)))))
