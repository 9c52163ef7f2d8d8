;; needs 64 MiB at its start, which its report says
(module (memory (export "memory") 1024) (func (export "_start")))
