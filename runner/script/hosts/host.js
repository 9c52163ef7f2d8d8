// Runs handlers in node. docs/reference/script-protocol.md describes the messages on descriptor 3.
'use strict'
const fs = require('node:fs')
const net = require('node:net')
const path = require('node:path')
const vm = require('node:vm')
const { createRequire } = require('node:module')

const CONNECTION = 3
const MOST_PRINTS = 32 << 10 // characters that a job may print before they are sent
const MOST_ERROR = 16 << 10

// What sources may use.

// ending makes Fail and Retry: errors that may be thrown or returned, with or without new.
function ending(name, code) {
  function Ending(text = '', delayMs) {
    const error = Reflect.construct(Error, [String(text)], new.target || Ending)
    error.code = code
    if (delayMs !== undefined && delayMs !== null) error.delayMs = Number(delayMs)
    return error
  }
  Ending.prototype = Object.create(Error.prototype, { constructor: { value: Ending }, name: { value: name } })
  return Ending
}
const Fail = ending('Fail', 'failed')
const Retry = ending('Retry', 'retry')
Object.assign(globalThis, { Fail, Retry, require: createRequire(path.join(process.cwd(), 'handler.js')) })

// Prints.

let prints = ''
process.stdout.write = (chunk, encoding, done) => {
  prints += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString()
  while (prints.length > MOST_PRINTS) {
    const last = prints.charCodeAt(MOST_PRINTS - 1)
    const end = last >= 0xd800 && last < 0xdc00 ? MOST_PRINTS - 1 : MOST_PRINTS // not between two surrogates
    const part = prints.slice(0, end)
    prints = prints.slice(end)
    send(JSON.stringify({ prints: part }) + '\n')
  }
  const callback = typeof encoding === 'function' ? encoding : done
  if (callback) process.nextTick(callback)
  return true
}

function takePrints() {
  if (prints === '') return ''
  const field = ',"prints":' + JSON.stringify(prints)
  prints = ''
  return field
}

let own = false // handle runs now, and nothing that an earlier job has left behind can

process.on('exit', () => {
  if (own) send(`{"exits":true${takePrints()}}\n`)
  else if (prints !== '') send(JSON.stringify({ prints }) + '\n')
})

// Messages.

const moment = new Int32Array(new SharedArrayBuffer(4))

// send writes at once, so that an answer is not lost when the next job ends the process.
function send(text) {
  let rest = text
  let left = Buffer.byteLength(text)
  while (left > 0) {
    try {
      const sent = fs.writeSync(CONNECTION, rest) // a string is quicker to write than a Buffer
      left -= sent
      if (left > 0) rest = (typeof rest === 'string' ? Buffer.from(rest) : rest).subarray(sent)
    } catch (error) {
      if (error.code === 'EPIPE') process.exit(0) // the runner is gone
      if (error.code !== 'EAGAIN') throw error
      Atomics.wait(moment, 0, 0, 1)
    }
  }
}

const lines = [] // that have arrived
let taken = 0 // how many of them were taken
let begun = [] // chunks of the line that has not ended
let wake = null

new net.Socket({ fd: CONNECTION, readable: true, writable: false })
  .on('data', (chunk) => {
    const end = chunk.lastIndexOf(10)
    if (end < 0) {
      begun.push(chunk)
      return
    }
    begun.push(chunk.subarray(0, end))
    for (const line of Buffer.concat(begun).toString().split('\n')) lines.push(line)
    begun = end + 1 < chunk.length ? [chunk.subarray(end + 1)] : []
    if (wake) {
      wake()
      wake = null
    }
  })
  .on('end', () => process.exit(0))
  .on('error', () => process.exit(0))

// arrived waits for a line.
function arrived() {
  return new Promise((resolve) => (wake = resolve))
}

function take() {
  const line = lines[taken]
  lines[taken++] = undefined
  if (taken === lines.length) {
    lines.length = 0
    taken = 0
  }
  return line
}

// Handlers.

const handlers = new Map() // by number
const befores = new Set() // that were run

async function load(m) {
  try {
    if (m.before && !befores.has(m.before)) {
      befores.add(m.before)
      await vm.runInThisContext(m.before, { filename: 'before.js', importModuleDynamically })
    }
    const compile = (source, filename, names) => {
      vm.compileFunction(source, [], { filename }) // for errors of syntax without what is added here
      const found = names.map((name) => `${name}: typeof ${name} === 'function' ? ${name} : undefined`)
      return vm.compileFunction(`${source}\nreturn {${found}}`, [], { filename, importModuleDynamically })()
    }
    const { handle } = compile(m.source, 'handler.js', ['handle'])
    if (!handle) throw new Error('the source defines no function handle(payload, job)')
    const either = (source, filename, name, camel) => {
      if (!source) return undefined
      const found = compile(source, filename, [name, camel])
      const hook = found[name] || found[camel]
      if (!hook) throw new Error(`${name} defines no function ${name}(jobs)`)
      return hook
    }
    handlers.set(m.load, {
      handle,
      beforeEach: either(m.before_each, 'before_each.js', 'before_each', 'beforeEach'),
      afterEach: either(m.after_each, 'after_each.js', 'after_each', 'afterEach'),
    })
    send(`{"loaded":${m.load}}\n`)
  } catch (error) {
    send(JSON.stringify({ loaded: m.load, error: describe(error) }) + '\n')
  }
}
const importModuleDynamically = vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER

// Batches.

function parse(line, batch) {
  const job = JSON.parse(line)
  job.client = batch.client
  job.type = batch.type
  if (job.payload_b64 !== undefined) {
    job.payload = Buffer.from(job.payload_b64, 'base64')
    delete job.payload_b64
  } else if (job.payload === undefined) job.payload = null
  if (job.meta === undefined) job.meta = {}
  return job
}

const isPromise = (value) => typeof value === 'object' && value !== null && typeof value.then === 'function'

async function run(batch) {
  const { handle, beforeEach, afterEach } = handlers.get(batch.handler)
  let jobs = null
  if (beforeEach || afterEach) {
    jobs = []
    while (jobs.length < batch.batch) {
      while (taken === lines.length) await arrived()
      jobs.push(parse(take(), batch))
    }
  }
  if (beforeEach) {
    try {
      await beforeEach(jobs)
    } catch (error) {
      send(JSON.stringify({ begun: true, error: describe(error) }) + '\n')
      return
    }
    send('{"begun":true}\n')
  }
  for (let i = 0; i < batch.batch; i++) {
    let answer
    try {
      while (!jobs && taken === lines.length) await arrived()
      const job = jobs ? jobs[i] : parse(take(), batch)
      own = true
      let value = handle(job.payload, job)
      own = false
      if (isPromise(value)) value = await value
      answer = answerOf(value)
    } catch (error) {
      own = false
      answer = failure(error)
    }
    answer = `{"job":${i},${answer}${takePrints()}}\n`
    if (i === batch.batch - 1 && !afterEach) answer += '{"done":true}\n'
    send(answer)
  }
  if (!afterEach) return
  try {
    await afterEach(jobs)
    send(`{"done":true${takePrints()}}\n`)
  } catch (error) {
    send(`{"done":true,"error":${JSON.stringify(describe(error))}${takePrints()}}\n`)
  }
}

function answerOf(value) {
  if (typeof value === 'string') return '"code":"ok","output":' + JSON.stringify(value)
  if (value === undefined || value === null) return '"code":"ok"'
  if (value instanceof Fail || value instanceof Retry) return failure(value)
  if (value instanceof Uint8Array) return `"code":"ok","output_b64":"${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')}"`
  if (value instanceof ArrayBuffer) return `"code":"ok","output_b64":"${Buffer.from(value).toString('base64')}"`
  const text = JSON.stringify(value)
  if (text === undefined) throw new TypeError(`handle returned a ${typeof value}, which is no JSON value`)
  return '"code":"ok","output":' + text
}

function failure(error) {
  if (error instanceof Fail || error instanceof Retry) {
    const end = { code: error.code, error: error.message.slice(0, MOST_ERROR) }
    if (Number.isFinite(error.delayMs)) end.delay_ms = Math.max(0, Math.round(error.delayMs))
    return JSON.stringify(end).slice(1, -1)
  }
  return '"code":"error","error":' + JSON.stringify(describe(error))
}

// describe returns the text of an error and the part of its stack that is of the handler.
function describe(error) {
  let text
  try {
    text = error instanceof Error && typeof error.stack === 'string' ? error.stack : String(error)
  } catch {
    text = 'an error without a text'
  }
  text = text.trimEnd().split('\n').filter((line) => !/^ {4}at .*(node:|host\.js:)/.test(line)).join('\n')
  return text.slice(0, MOST_ERROR) || 'an error without a text'
}

async function main() {
  for (;;) {
    while (taken === lines.length) await arrived()
    const message = JSON.parse(take())
    if (message.load !== undefined) await load(message)
    else await run(message)
  }
}
main()
