(module
  (import "wasi_snapshot_preview1" "no_such_function" (func))
  (memory (export "memory") 1)
  (func (export "_start")))
