// What Uppy expects of a browser, and node has of itself only from 20 on.
import { File } from 'node:buffer'

globalThis.File ??= File
