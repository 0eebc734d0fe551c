// SPDX-License-Identifier: GPL-2.0-only
//
// test-export-perfetto.mjs PAGE TRACE QUERY... : opens a trace with the trace processor
// of Perfetto's page, and prints the text that each query finds, one line each.
//
// The trace processor is WebAssembly with JavaScript, which runs in a worker of the page. Its
// requests are messages of Perfetto's trace_processor.proto.

import { readFileSync } from 'node:fs'

// By default Node.js prints the source line of the error, which here is the whole program.
process.on('uncaughtException', (error) => {
  console.error(error.stack)
  process.exit(1)
})

const [page, trace, ...queries] = process.argv.slice(2)

// --- fields of protobuf messages: numbers, and bytes ---

const varint = (n) => (n < 128 ? [n] : [(n % 128) + 128, ...varint(Math.floor(n / 128))])
const number = (field, n) => Buffer.from([...varint(field * 8), ...varint(n)])
const bytes = (field, data) => Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(data.length)]), data])

// find(MESSAGE, FIELD, DEEPER...) : returns the bytes of all fields FIELD, or of the fields
// DEEPER in these, if they are messages themselves.
function find(message, field, ...deeper) {
  if (field === undefined) return [message]
  const found = []
  let at = 0
  const next = () => {
    for (let n = 0, unit = 1; ; unit *= 128) {
      const byte = message[at++]
      n += (byte % 128) * unit
      if (byte < 128) return n
    }
  }
  while (at < message.length) {
    const key = next()
    const value = next()
    if (key % 8 === 0) continue
    if (key % 8 !== 2) throw new Error(`a field of type ${key % 8}`)
    if (key === field * 8 + 2) found.push(...find(message.subarray(at, at + value), ...deeper))
    at += value
  }
  return found
}

// --- the worker ---

// The worker fetches the WebAssembly by XMLHttpRequest.
class XMLHttpRequest {
  open(method, name) {
    this.name = name
  }

  send() {
    this.response = readFileSync(`${page}/${this.name}`)
  }
}
const answers = []
const port = { postMessage: (data) => answers.push(data) }
const self = { location: { href: '' } }
const quiet = { ...console, warn() {} }
// The worker refuses to run in Node.js, which it recognizes by `process`.
new Function('self', 'process', 'WorkerGlobalScope', 'XMLHttpRequest', 'console', readFileSync(`${page}/engine_bundle.js`, 'utf8'))(
  self, undefined, Object, XMLHttpRequest, quiet
)
self.onmessage({ data: port })
// The worker gets ready in the next turn of the event loop.
await new Promise(setImmediate)

const text = (message, ...path) => find(message, ...path).join('').replaceAll('\0', '')
let sent = 0
// onmessage() passes the answer to postMessage() before it returns, maybe in parts.
function ask(method, argument) {
  port.onmessage({ data: new Uint8Array(bytes(1, Buffer.concat([number(1, sent++), number(2, method), argument]))) })
  const answer = Buffer.concat(answers.splice(0))
  // Errors: of the request, of appended data, of a query, of the end.
  const error = [[1, 5], [1, 201, 2], [1, 203, 2], [1, 212, 1]].map((path) => text(answer, ...path)).join('')
  if (error) throw new Error(error)
  return answer
}

const [APPEND, FINALIZE, QUERY] = [1, 2, 3]
ask(APPEND, bytes(101, readFileSync(trace)))
ask(FINALIZE, Buffer.alloc(0))
for (const query of queries) console.log(text(ask(QUERY, bytes(103, bytes(1, Buffer.from(query)))), 1, 203, 3, 5))
