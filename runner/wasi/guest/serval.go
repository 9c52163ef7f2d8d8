package guest

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// MaxAnswerBytes bounds the data and the answer of invoke_raw.
const MaxAnswerBytes = 12 << 20

// invoke_raw returns these instead of an address if it fails.
const (
	noMemory = -1 - iota
	noName
	noData
	noAnswer
)

// callerKey is the context key under which host functions find the run.
type callerKey struct{}

// addServal adds the host module serval to a runtime:
//
//	add(i32, i32) -> i32
//	invoke_raw(name_ptr, name_len, data_ptr, data_len) -> i32
//
// invoke_raw calls the guest's export alloc(i32) -> i32 to get memory for its answer. It writes the length of the answer
// there, as four bytes, little-endian, then the answer, and returns the address. It returns -1 if the guest exports no
// memory, -2 if it cannot read the name, -3 if it cannot read the data, and -4 if it cannot write the answer.
func addServal(ctx context.Context, r wazero.Runtime) error {
	i32 := api.ValueTypeI32
	_, err := r.NewHostModuleBuilder("serval").
		NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
		stack[0] = api.EncodeI32(api.DecodeI32(stack[0]) + api.DecodeI32(stack[1]))
	}), []api.ValueType{i32, i32}, []api.ValueType{i32}).Export("add").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
		stack[0] = api.EncodeI32(invokeRaw(ctx, m, uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])))
	}), []api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}).Export("invoke_raw").
		Instantiate(ctx)
	return err
}

// maxNameBytes bounds the name of a function.
const maxNameBytes = 1 << 10

func invokeRaw(ctx context.Context, m api.Module, namePtr, nameLen, dataPtr, dataLen uint32) int32 {
	memory := m.ExportedMemory("memory")
	if memory == nil {
		return noMemory
	}
	name, ok := memory.Read(namePtr, nameLen)
	if !ok {
		return noName
	}
	data, ok := memory.Read(dataPtr, dataLen)
	if !ok {
		return noData
	}
	call, _ := ctx.Value(callerKey{}).(*run)
	answer := call.invoke(name, data)
	alloc := m.ExportedFunction("alloc")
	if alloc == nil {
		return noAnswer
	}
	results, err := alloc.Call(ctx, uint64(4+len(answer)))
	if err != nil || len(results) != 1 {
		return noAnswer
	}
	at := uint32(results[0])
	header := binary.LittleEndian.AppendUint32(nil, uint32(len(answer)))
	if uint64(at)+uint64(4+len(answer)) > uint64(memory.Size()) || !memory.Write(at, header) || !memory.Write(at+4, answer) {
		return noAnswer
	}
	return int32(at)
}

// invoke calls a function, and returns its answer. data is valid until the guest runs again.
func (r *run) invoke(name, data []byte) []byte {
	switch {
	case r == nil:
		return errorAnswer("functions cannot be invoked here")
	case string(name) != "http":
		return errorAnswer(fmt.Sprintf("there is no function %q", name[:min(len(name), maxNameBytes)]))
	case !r.spec.HTTP:
		return errorAnswer("the handler has no permission for HTTP requests (http:HOST)")
	case len(data) > MaxAnswerBytes:
		return errorAnswer(fmt.Sprintf("the request has %d bytes; the maximum is %d", len(data), MaxAnswerBytes))
	}
	r.process.sender.send(Request, r.number, data)
	return <-r.process.answers
}

// errorAnswer returns the answer of a function that failed.
func errorAnswer(text string) []byte {
	b, err := json.Marshal(map[string]string{"error": text})
	if err != nil {
		panic(err) // cannot happen: texts are quoted, so they are UTF-8
	}
	return b
}
