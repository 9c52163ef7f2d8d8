// One request to a Daybook server, repeated while the server is away. It needs fetch, and nothing else.

const url = (process.env.DAYBOOK_SERVER ?? "http://127.0.0.1:1717").replace(/\/+$/, "");

// After these statuses the same request may succeed later: the server is busy, starts or stops, or a proxy cannot reach it.
// After 500, 507 and some codes of 429 somebody must act first, for example make room on the disk. So requests about jobs that
// others wait for need a bound, which is the caller's giveUp. This program does not repeat after any other refusal.
const temporary = new Set([408, 429, 500, 502, 503, 504, 507]);

export interface Lost {
  job_id: string;
  code: string;
}

/** What the server answers when it refuses a request. */
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

/** The request got no answer in the time that it had. Whether the server carried it out is not known. */
export class Away extends Error {}

export interface PostOptions {
  contentType?: string;
  key?: string; // an idempotency key
  timeoutMs?: number; // of one try
  giveUp?: () => boolean;
}

/**
 * Posts body (bytes, or an object for JSON) and returns the document of the answer, or undefined if it has none.
 *
 * A request is repeated until giveUp() is true. The caller must make sure that a repeat does nothing twice: by an
 * idempotency key, or because the request names the claim that it ends. An answer can be lost after the server has
 * carried the request out.
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
      // fetch reports a refused connection as "fetch failed", and has the reason as its cause.
      reason = String((e as Error).cause ?? e);
    }
    if (options.giveUp?.()) throw new Away(`POST ${path}: ${reason}`);
    log(`POST ${path}: ${reason}; trying again`);
    // Without the random part, all programs that lost the server would come back at the same moment.
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
