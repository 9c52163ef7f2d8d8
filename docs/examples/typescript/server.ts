// Sends requests to a Daybook server, and repeats them while it is unreachable. Needs only fetch.

const url = (process.env.DAYBOOK_SERVER ?? "http://127.0.0.1:1717").replace(/\/+$/, "");

// After these statuses the same request may succeed later: the server is busy, starts or stops, or a proxy cannot reach it.
// After 500, 507 and some codes of 429 somebody must act first, for example make room on the disk. So if other workers wait for
// the jobs, the repeats need a bound: the caller's giveUp. After any other refusal this program does not repeat the request.
const temporary = new Set([408, 429, 500, 502, 503, 504, 507]);

export interface Lost {
  job_id: string;
  code: string;
}

/** The server's answer when it refuses a request. */
export interface Problem {
  code?: string; // one of docs/reference/errors.md; it never changes between versions
  detail?: string;
  lost?: Lost[]; // of a tickle
}

/** The server refused the request. */
export class Refused extends Error {
  readonly problem: Problem;

  constructor(status: number, problem: Problem) {
    super(`${status} ${problem.code}: ${problem.detail}`);
    this.problem = problem;
  }
}

/** The request got no answer in time. The server may have carried it out. */
export class Away extends Error {}

export interface PostOptions {
  contentType?: string;
  key?: string; // an idempotency key
  timeoutMs?: number; // of one try
  giveUp?: () => boolean;
}

/**
 * Posts body (bytes, or an object for JSON) and returns the document of the answer, or undefined if there is none.
 *
 * A request is repeated until giveUp() is true. An answer can be lost after the server has carried out the request. So the
 * caller must make sure that a repeat does nothing twice: by an idempotency key, or because the request names the claim
 * that it ends.
 */
export async function post<T>(path: string, body: Buffer | object, options: PostOptions = {}): Promise<T | undefined> {
  const headers: Record<string, string> = { "Content-Type": options.contentType ?? "application/json" };
  if (options.key !== undefined) headers["Idempotency-Key"] = options.key;
  const data = body instanceof Buffer ? new Uint8Array(body) : JSON.stringify(body);
  const timeoutMs = Math.ceil(options.timeoutMs ?? 30_000); // AbortSignal takes no fractions
  for (let wait = 100; ; wait = Math.min(2 * wait, 2000)) {
    let reason: string;
    let pause = 0;
    try {
      const signal = AbortSignal.timeout(timeoutMs); // includes the time to read the answer
      const answer = await fetch(url + path, { method: "POST", headers, body: data, signal });
      const text = await answer.text(); // fails if the connection breaks before the end
      if (answer.ok) return text === "" ? undefined : (JSON.parse(text) as T);
      const problem = problemOf(text);
      if (!temporary.has(answer.status)) throw new Refused(answer.status, problem);
      reason = `${answer.status} ${problem.code}`;
      pause = 1000 * (Number(answer.headers.get("Retry-After")) || 0);
    } catch (e) {
      if (e instanceof Refused) throw e;
      // fetch reports a refused connection as "fetch failed"; the cause of the error has the reason.
      reason = String((e as Error).cause ?? e);
    }
    if (options.giveUp?.()) throw new Away(`POST ${path}: ${reason}`);
    log(`POST ${path}: ${reason}; trying again`);
    // Without the random part, all programs that lost the server would reconnect at the same moment.
    await sleep(Math.max(pause, wait * (0.5 + Math.random() / 2)));
  }
}

function problemOf(text: string): Problem {
  try {
    return JSON.parse(text) as Problem;
  } catch {
    return { detail: "the answer is not one of Daybook; a proxy may have sent it" };
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function log(text: string): void {
  console.error(text);
}
