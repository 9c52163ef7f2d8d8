;; lets a table grow, which is memory of the process and not of the guest
(module
  (table $t 0 funcref)
  (func (export "_start")
    (loop $more
      (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 4000000)) (i32.const -1))))
    (loop $on (br $on))))
