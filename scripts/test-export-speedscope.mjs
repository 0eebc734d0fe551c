// SPDX-License-Identifier: GPL-2.0-only
//
// test-export-speedscope.mjs PAGE FILE : opens a file with speedscope's own importer,
// and prints what it makes of each profile as JSON.
//
// The importer is in the program of speedscope's page, which shows its functions to
// nothing outside. Their names are in it as properties that it defines.

import { readFileSync, readdirSync } from 'node:fs'

const [page, file] = process.argv.slice(2)
// Of its own accord Node.js shows the line where it was: all of the program.
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
// The last thing that the program does is to draw the page.
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
// Its modules are ready a moment later.
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
