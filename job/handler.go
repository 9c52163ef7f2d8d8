package job

// handlerRules are the rules of handlers. The document of a handler is JSON and says how runners run the jobs of the type
// that is its name; package handler has its form. Apply does not read it. Without a client, a handler is for all clients
// that have no handler of the type. Its summary is the kind of the handler. Claims name the handlers of their jobs, so
// handlers are in memory.
var handlerRules = DocumentRules{
	Name: "handler", MaxBytes: MaxHandlerBytes, MaxNames: MaxHandlers, MaxTotal: MaxHandlersBytes, InMemory: true,
	NotFound: HandlerNotFound, TooMany: TooManyHandlers,
	Check: func(p *PutDocument) error { return CheckName("summary", p.Summary) },
}
