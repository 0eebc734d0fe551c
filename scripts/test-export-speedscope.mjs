// SPDX-License-Identifier: GPL-2.0-only
//
// test-export-speedscope.mjs PAGE FILE : opens a file with speedscope's own importer,
// and prints each imported profile as JSON.
//
// The importer is in the program of speedscope's page, which exports nothing. This script gets
// it through the properties that the program defines with its functions' names.

import { readFileSync, readdirSync } from 'node:fs'

const [page, file] = process.argv.slice(2)
// By default Node.js prints the source line of the error, which here is the whole program.
process.on('uncaughtException', (error) => {
  console.error(error.stack)
  process.exit(1)
})

const [program] = readdirSync(page).filter((name) => /^speedscope-.*\.js$/.test(name))

let open
function defineProperty(object, name, property) {
  if (name === 'importProfileGroupFromText') open = property.get
  return Object.defineProperty(object, name, property)
}
const watched = new Proxy(Object, { get: (all, name) => (name === 'defineProperty' ? defineProperty : all[name]) })
// The program ends with drawing the page, which this stops.
const ready = new Error('no page')
const document = {
  get body() {
    throw ready
  }
}
const window = { location: { protocol: 'file:', hash: '' } }
const quiet = { ...console, log() {} }
try {
  new Function('Object', 'window', 'document', 'console', readFileSync(`${page}/${program}`, 'utf8'))(watched, window, document, quiet)
} catch (error) {
  if (error !== ready) throw error
}
// The modules get ready in the next turn of the event loop.
await new Promise(setImmediate)

const chains = (node, callers) =>
  node.children.flatMap((callee) => {
    const chain = [...callers, callee.frame.name]
    return [chain, ...chains(callee, chain)]
  })
const { profiles } = await open()(file, readFileSync(file, 'utf8'))
const result = profiles.map((profile) => {
  const frames = []
  profile.forEachFrame((frame) => frames.push({ name: frame.name, file: frame.file, line: frame.line, total: frame.getTotalWeight() }))
  return { name: profile.getName(), total: profile.getTotalWeight(), frames, chains: chains(profile.getGroupedCalltreeRoot(), []) }
})
console.log(JSON.stringify(result))
