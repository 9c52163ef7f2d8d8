// Posts each line of standard input as a job: node producer.js TYPE KEY < lines.txt
//
// KEY names this input. If the producer is killed, or its machine stops, run it again with the same input and the same KEY:
// lines that the server has already stored are not stored twice. The server remembers a key for 24 hours.

import { Away, post, Refused } from "./server.ts";

// One request creates the jobs of one body, all or none. A body may have 8 MiB; with 1 MiB, less must be sent again
// after a failure.
const bodyBytes = 1 << 20;
// How long the server may be unreachable before the producer gives up.
const patienceMs = 600_000;

/**
 * Splits the input into bodies of whole lines. The same input always gives the same bodies, however it arrives, since each
 * body has its own key.
 */
async function* bodies(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of input) {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length > bodyBytes) {
      // End after the last line that fits into the body. If the first line is longer than a body, end after that line.
      let end = rest.lastIndexOf(10, bodyBytes - 1) + 1;
      if (end === 0) end = rest.indexOf(10) + 1;
      if (end === 0) break; // the line has not arrived completely
      yield rest.subarray(0, end);
      rest = rest.subarray(end);
    }
  }
  if (rest.length > 0) yield rest;
}

async function main(type: string, key: string): Promise<void> {
  const path = "/add?" + new URLSearchParams({ jobtype: type }).toString();
  let created = 0;
  let n = 0;
  for await (const body of bodies(process.stdin)) {
    const deadline = Date.now() + patienceMs;
    // With the key, a repeat of a body whose answer was lost returns the first answer.
    const options = { contentType: "text/plain", key: `${key}-${n}`, giveUp: () => Date.now() > deadline };
    try {
      const batch = await post<{ count: number }>(path, body, options);
      created += batch?.count ?? 0;
    } catch (e) {
      // key_reused: the key belongs to another input. Any other refusal here is an error of this program.
      if (e instanceof Refused) throw new Error(`body ${n} was refused: ${e.message}`);
      if (e instanceof Away) throw new Error(`body ${n}: ${e.message}; run this command again with the same input and key`);
      throw e;
    }
    n++;
  }
  console.log(created);
}

const [type, key] = process.argv.slice(2);
if (type === undefined || key === undefined) {
  console.error("usage: node producer.js TYPE KEY < lines.txt");
  process.exitCode = 2;
} else {
  main(type, key).catch((e: Error) => {
    console.error(e.message);
    process.exitCode = 1;
  });
}
