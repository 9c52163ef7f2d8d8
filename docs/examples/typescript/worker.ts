// Does the jobs of one type until SIGTERM or SIGINT: node worker.js TYPE
//
// The work is to count the words of the payload. Replace countWords by your own work.
//
// This worker relies on the following:
//
// - The server gives a job to one claim at a time, and takes it back if the lease ends. So the worker tickles its jobs.
// - A late worker cannot end a job that another worker has: each request names the claim, and the server refuses it if the
//   claim no longer holds the job. The worker then drops its result, because the other worker reports its own.
// - A job may run more than once: if a worker is killed before its report, another worker does the job. So the work must be
//   safe to repeat. Write its effects so that a second run changes nothing, for example under the job's id.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

import { Away, log, type Lost, post, Refused, sleep } from "./server.ts";

const runner = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
// How many jobs run at once. They share one thread: a job that computes for long without an await keeps the tickles from
// being sent, so move such work to a worker thread or another process.
const concurrency = 8;
// How many jobs one claim requests. Their outcomes are reported together when the last of them has ended, so choose a
// number of jobs that takes seconds, not minutes.
const max = 64;
// How long the server waits for a tickle before it gives the jobs to another worker.
const leaseMs = Number(process.env.LEASE_MS ?? 30_000);
// How long a claim waits at the server for a job. The worker finishes this request before it stops, so it is short.
const waitMs = 2000;
// How long the worker repeats a report. It tickles during this time, so without a bound no other worker would get the jobs.
const reportMs = 600_000;
// The same after SIGTERM. It begins when the last job has ended, so a supervisor must wait for the longest job and this time
// before it sends SIGKILL: TimeoutStopSec of systemd, terminationGracePeriodSeconds of Kubernetes.
const stopMs = 10_000;
// The server accepts an output of 4 MiB, an error of 64 KiB and a body of 8 MiB. It refuses all outcomes of a request if one
// of them is longer, so the worker keeps these bounds itself.
const outputBytes = 4 << 20;
const errorBytes = 60 << 10;
const bodyBytes = 6 << 20;
const workMs = Number(process.env.WORK_MS ?? 0); // makes the work slow, so that you can interrupt it

/** The clock of leases. Date.now() may jump when the time of the machine is set. */
const now = (): number => performance.now();

let stopAt: number | undefined; // when SIGTERM or SIGINT arrived
const overdue = (since = 0): boolean => stopAt !== undefined && now() > Math.max(stopAt, since) + stopMs;

/** The job can never succeed. It ends as failed, and does not run again. */
class Failed extends Error {}

/** The worker no longer holds the job, or cannot be sure of it. */
class NotHeld extends Error {}

/** The work. A program with long jobs calls check() between its steps, and before each effect outside of it. */
async function countWords(payload: string, check: () => void): Promise<unknown> {
  const end = now() + workMs;
  while (now() < end) {
    check();
    await sleep(Math.min(50, end - now()));
  }
  const words = payload.match(/[A-Za-z0-9]+/g)?.length ?? 0;
  if (words === 0) throw new Failed("the line has no words");
  return { words };
}

interface Job {
  job_id: string;
  payload?: string;
}

interface ClaimAnswer {
  claim_id: string;
  lease_ms: number;
  jobs: Job[];
}

interface Result {
  job_id: string;
  code?: string; // why the outcome was refused
}

/** The jobs of one claim while the worker holds them. */
class Claim {
  readonly id: string;
  readonly jobs: Job[];
  readonly leaseMs: number;
  readonly gone = new Set<string>(); // jobs that the server has taken back
  // The lease began when the server handed the jobs out, after the worker had sent the request. So the lease ends no earlier
  // than the worker assumes.
  private heldAt: number;
  private timer: NodeJS.Timeout | undefined;
  private ended = false;

  constructor(answer: ClaimAnswer, askedAt: number) {
    this.id = answer.claim_id;
    this.jobs = answer.jobs;
    this.leaseMs = answer.lease_ms;
    this.heldAt = askedAt;
  }

  check(jobId: string): void {
    if (this.gone.has(jobId) || now() > this.heldAt + this.leaseMs) throw new NotHeld();
  }

  /** Extends the lease. Returns false if the server did not answer. */
  async tickle(): Promise<boolean> {
    const ids = this.jobs.map((job) => job.job_id).filter((id) => !this.gone.has(id));
    if (ids.length === 0) return true;
    const sent = now();
    let lost: Lost[] = [];
    try {
      const request = { claim_id: this.id, runner_id: runner, job_ids: ids };
      const answer = await post<{ lost: Lost[] }>("/jobs/tickle", request, { timeoutMs: this.leaseMs / 3, giveUp: () => true });
      this.heldAt = sent;
      lost = answer?.lost ?? [];
    } catch (e) {
      if (e instanceof Away) {
        log(e.message);
        return false;
      }
      if (!(e instanceof Refused)) throw e;
      lost = e.problem.lost ?? []; // none of the jobs is held
    }
    for (const { job_id, code } of lost) {
      log(`job ${job_id}: ${code}`);
      this.gone.add(job_id);
    }
    return true;
  }

  /** Tickles until end() is called, after the report: jobs that wait for the report need their lease, too. */
  keep(waitMs = this.leaseMs / 3): void {
    this.timer = setTimeout(async () => {
      // A server that restarts keeps all leases. So if it is unreachable, the work continues until the lease has ended by
      // this worker's clock, and the next tickle comes sooner.
      const wait = (await this.tickle()) ? this.leaseMs / 3 : Math.min(1000, this.leaseMs / 10);
      if (!this.ended) this.keep(wait);
    }, waitMs);
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }
}

/** Does one job. Returns its outcome as JSON, or undefined if the worker must not report one. */
async function run(claim: Claim, job: Job): Promise<string | undefined> {
  const job_id = job.job_id;
  const check = (): void => claim.check(job_id);
  try {
    check();
    // An output that cannot be encoded must fail this job, not the report of all jobs.
    const output = JSON.stringify((await countWords(job.payload ?? "", check)) ?? null);
    const bytes = Buffer.byteLength(output);
    if (bytes > outputBytes) throw new Failed(`the output has ${bytes} bytes; the server accepts ${outputBytes}`);
    return `{"job_id":${JSON.stringify(job_id)},"code":"ok","output":${output}}`;
  } catch (e) {
    if (e instanceof NotHeld) return undefined;
    // After an error the server runs the job again when its backoff has passed, until its attempts are used up.
    const code = e instanceof Failed ? "failed" : "error";
    const text = e instanceof Failed ? e.message : String(e);
    return JSON.stringify({ job_id, code, error: Buffer.from(text).subarray(0, errorBytes).toString() });
  }
}

/** Returns the giveUp for requests about jobs that have just ended. */
function patience(): () => boolean {
  const ended = now();
  return () => overdue(ended) || now() > ended + reportMs;
}

/** Returns jobs to their queue as if they had never been claimed: another worker gets them now, not after the lease. */
async function giveBack(claim: Claim, jobs: Job[], giveUp: () => boolean): Promise<void> {
  for (const job of jobs) {
    try {
      const request = { how: "unget", claim_id: claim.id, runner_id: runner };
      await post(`/jobs/${job.job_id}/release`, request, { giveUp });
    } catch (e) {
      if (!(e instanceof Refused)) throw e; // refused: the claim no longer holds the job, so there is nothing to give back
    }
  }
}

/** Divides outcomes into requests. In most cases one request is enough. */
function* requests(outcomes: string[]): Generator<string[]> {
  let part: string[] = [];
  let size = 0;
  for (const outcome of outcomes) {
    const bytes = Buffer.byteLength(outcome);
    if (part.length > 0 && size + bytes > bodyBytes) {
      yield part;
      part = [];
      size = 0;
    }
    part.push(outcome);
    size += bytes;
  }
  yield part;
}

/**
 * Reports outcomes in one request, and repeats it until it is answered, or giveUp() is true.
 *
 * The repeat is safe: if the claim has ended a job with the same outcome, the server answers as it did the first time.
 */
async function report(claim: Claim, outcomes: string[], giveUp: () => boolean): Promise<void> {
  const ids = `"claim_id":${JSON.stringify(claim.id)},"runner_id":${JSON.stringify(runner)}`;
  const body = Buffer.from(`{${ids},"outcomes":[${outcomes.join(",")}]}`);
  try {
    const answer = await post<{ results: Result[] }>("/jobs/complete", body, { giveUp });
    for (const { job_id, code } of answer?.results ?? []) {
      // claim_lost: the lease ended, and the job is pending or another worker has it. cancelled: somebody cancelled it. In
      // each case the outcome no longer applies, and the worker drops it.
      if (code !== undefined) log(`job ${job_id}: the outcome was refused: ${code}`);
    }
  } catch (e) {
    if (!(e instanceof Refused)) throw e;
    // The server applied no part of the request. If one outcome is the reason, the other outcomes must still be reported.
    if (outcomes.length > 1) {
      for (const outcome of outcomes) await report(claim, [outcome], giveUp);
    } else {
      // The job runs again when its lease ends, until its attempts are used up.
      log(`the report was refused: ${e.message}: ${outcomes[0]?.slice(0, 200)}`);
    }
  }
}

async function workOn(claim: Claim): Promise<void> {
  claim.keep();
  try {
    const waiting = [...claim.jobs];
    const notDone: Job[] = [];
    const outcomes: string[] = [];
    const worker = async (): Promise<void> => {
      // After SIGTERM, finish the jobs that have begun, and give back the rest.
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
        const outcome = stopAt === undefined ? await run(claim, job) : undefined;
        if (outcome !== undefined) outcomes.push(outcome);
        else if (!claim.gone.has(job.job_id)) notDone.push(job);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, worker));
    const giveUp = patience();
    if (outcomes.length > 0) {
      for (const part of requests(outcomes)) await report(claim, part, giveUp);
    }
    await giveBack(claim, notDone, giveUp);
  } catch (e) {
    if (!(e instanceof Away) || stopAt !== undefined) throw e;
    log(`${e.message}; the jobs of this claim run again when their lease has ended`);
  } finally {
    claim.end(); // also ends the tickles, so that another worker gets the jobs
  }
}

async function main(type: string): Promise<void> {
  const stop = (): void => {
    stopAt ??= now();
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  const request = { runner_id: runner, types: [type], max, lease_ms: leaseMs, wait_ms: waitMs };
  while (stopAt === undefined) {
    // If the answer is lost, the repeat with the same key gets the jobs of the first try. Without the key, no worker would
    // have them until their lease ends. For the same reason the worker never aborts this request: the server may have
    // carried it out.
    const askedAt = now();
    const answer = await post<ClaimAnswer>("/jobs/claim", request, { key: randomUUID(), timeoutMs: waitMs + 10_000, giveUp: overdue });
    if (answer === undefined || answer.jobs.length === 0) continue;
    const claim = new Claim(answer, askedAt);
    if (now() > askedAt + claim.leaseMs / 3) await claim.tickle(); // it took long: another worker may have the jobs by now
    await workOn(claim);
  }
}

const type = process.argv[2];
if (type === undefined) {
  console.error("usage: node worker.js TYPE");
  process.exitCode = 2;
} else {
  main(type).catch((e: Error) => {
    const away = e instanceof Away ? "; jobs that this worker held run again when their lease has ended" : "";
    console.error(e.message + away);
    process.exitCode = 1;
  });
}
