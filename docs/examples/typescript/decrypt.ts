// Decrypt payloads, outputs and errors that the Go client or the command line of Daybook has encrypted.
//
//     node decrypt.js FILE_WITH_KEYS payload|output|error < TEXTS
//
// Each line of standard input is an encrypted text. The program prints the kind and the content of each. It needs nothing but
// WebCrypto, which browsers have, too. The format is in docs/reference/encryption.md.

import { readFileSync } from "node:fs";

type Part = "payload" | "output" | "error";

const kinds: Record<string, string> = { t: "text", j: "json", b: "bytes" };
// The output of a job becomes the payload of the job that follows.
const letters: Record<Part, string> = { payload: "po", output: "o", error: "e" };

/** Returns the keys of a file by their ids. */
async function readKeys(text: string): Promise<Map<string, CryptoKey>> {
  const keys = new Map<string, CryptoKey>();
  for (const line of text.split("\n").map((one) => one.trim())) {
    if (line === "" || line.startsWith("#")) continue;
    const [, id, digits] = /^dbe_([0-9a-f]{16})_([0-9a-f]{64})$/.exec(line) ?? [];
    if (id === undefined || digits === undefined) throw new Error("a line is not a key");
    const secret = Uint8Array.from(digits.match(/../g) ?? [], (two) => parseInt(two, 16));
    keys.set(id, await crypto.subtle.importKey("raw", secret, "AES-GCM", false, ["decrypt"]));
  }
  return keys;
}

/** Returns the kind and the bytes of a content. It throws if the content was changed, or is of another part. */
export async function decrypt(keys: Map<string, CryptoKey>, part: Part, text: string): Promise<{ kind: string; content: Uint8Array }> {
  const [, head, letter, id, data] = /^(dbe1\.([poe])\.([0-9a-f]{16})\.)([A-Za-z0-9_-]+)$/.exec(text) ?? [];
  if (head === undefined || letter === undefined || id === undefined || data === undefined || !letters[part].includes(letter)) {
    throw new Error(`this is not an encrypted ${part}`);
  }
  const key = keys.get(id);
  if (key === undefined) throw new Error(`the key ${id} is missing`);
  const sealed = Uint8Array.from(atob(data.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  const plain = new Uint8Array(
    await crypto.subtle.decrypt({ name: "AES-GCM", iv: sealed.subarray(0, 12), additionalData: new TextEncoder().encode(head) }, key, sealed.subarray(12)),
  );
  const kind = kinds[String.fromCharCode(plain[0] ?? 0)];
  if (kind === undefined) throw new Error("the kind of the content is not known");
  return { kind, content: plain.subarray(1) };
}

const [, , file, part] = process.argv;
if (file === undefined || (part !== "payload" && part !== "output" && part !== "error")) {
  console.error("usage: node decrypt.js FILE_WITH_KEYS payload|output|error < TEXTS");
  process.exit(2);
}
const keys = await readKeys(readFileSync(file, "utf8"));
for (const line of readFileSync(0, "utf8").split("\n")) {
  if (line === "") continue;
  const { kind, content } = await decrypt(keys, part, line);
  process.stdout.write(Buffer.concat([Buffer.from(kind + " "), content, Buffer.from("\n")]));
}
