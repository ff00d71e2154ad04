// The reference server with its store of files, as its own documentation starts it. Prints its port.
import { FileStore } from "@tus/file-store";
import { Server } from "@tus/server";

const server = new Server({ path: "/files", datastore: new FileStore({ directory: process.argv[2] }) });
const http = server.listen({ host: "127.0.0.1", port: 0 }, () => console.log(http.address().port));
