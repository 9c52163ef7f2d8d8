// Creates three jobs in BullMQ: one waits, one is delayed, and one waits two hours for its second attempt.
import { Queue, Worker } from 'bullmq';
import IORedis from 'ioredis';

const connection = new IORedis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
const queue = new Queue('resize', { connection });
const worker = new Worker('resize', async () => { throw new Error('no width'); }, { connection });

const failure = new Promise((resolve) => { worker.once('failed', resolve); });
await queue.add('resize', { file: 'owl.png' }, { attempts: 5, backoff: 7_200_000, priority: 2 });
await failure;
await worker.close();
const options = { attempts: 5, backoff: { type: 'exponential', delay: 1000 } };
await queue.add('resize', { file: 'dog.png', width: 80 }, { ...options, delay: 3_600_000 });
await queue.add('resize', { file: 'fox.png', width: 80 }, options);
await queue.close();
await connection.quit();
