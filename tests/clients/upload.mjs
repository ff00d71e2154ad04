// Uploads a file with a stock client and prints what came of it as JSON:
//   node upload.mjs tus-js-client|uppy '{"endpoint", "token", "path", "metadata", "options"}'
import { createReadStream, readFileSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import Uppy from '@uppy/core'
import UppyTus from '@uppy/tus'
import * as tus from 'tus-js-client'

const [client, json] = process.argv.slice(2)
const { endpoint, token, path, metadata, options } = JSON.parse(json)

let documentId = null
const common = {
  endpoint,
  headers: { Authorization: `Bearer ${token}` },
  retryDelays: [20, 50, 100, 200, 400, 800],
  onAfterResponse: (_request, response) => {
    documentId = response.getHeader('Nexarch-Document-Id') ?? documentId
  },
  ...options,
}

function withTusJsClient() {
  // Of a file the client knows the length by itself, of a stream it does not.
  const file = createReadStream(path)
  const source = common.uploadLengthDeferred ? file.pipe(new PassThrough()) : file
  return new Promise((resolve, reject) => {
    const upload = new tus.Upload(source, {
      ...common,
      metadata,
      onError: reject,
      onSuccess: () => resolve(upload.url),
    })
    upload.start()
  })
}

async function withUppy() {
  const uppy = new Uppy().use(UppyTus, common)
  const data = readFileSync(path)
  data.size = data.length // as the File of a browser has it
  uppy.addFile({ name: metadata.filename, type: metadata.filetype, data, meta: metadata })
  const { successful, failed } = await uppy.upload()
  if (failed.length > 0) throw new Error(failed[0].error)
  return successful[0].uploadURL
}

const url = await (client === 'uppy' ? withUppy() : withTusJsClient())
console.log(JSON.stringify({ url, documentId }))
