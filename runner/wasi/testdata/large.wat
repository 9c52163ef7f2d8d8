;; needs 64 MiB at its start; the memory is not exported, so it is found only when it is instantiated
(module (memory 1024) (func (export "_start")))
