;; exits with 7 if memory.grow fails at 32 MiB and succeeds before
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (if (i32.ne (memory.grow (i32.const 100)) (i32.const 1)) (then (call $exit (i32.const 1))))
    (if (i32.ne (memory.grow (i32.const 512)) (i32.const -1)) (then (call $exit (i32.const 2))))
    (call $exit (i32.const 7))))
