// Package cluster attacks three or five servers that share one journal, under load. It kills, freezes and stops their processes,
// takes their data away, cuts their network, and cuts the power of their disks. `make prove LANE=cluster` runs everything,
// `make prove-short` a small part.
//
// # The lanes
//
//   - Faults: SIGKILL of the leader, of a follower, and of all nodes; SIGSTOP of a node for one to five seconds; SIGTERM of
//     the leader; a transfer of the lead; and the loss of a node's data, after which the node is removed and another one
//     joins in its place. A node that runs is removed, and must not answer as if it were a member.
//   - Partitions: each node is in a network namespace, with a cable to a switch and a certificate. The leader or a follower is
//     cut off, or does not hear the others, or is not heard, or its network flaps; the leader and a follower are cut from
//     each other while both reach the third node; or all nodes are cut from each other. Users reach all nodes meanwhile.
//   - Disks: the data are on proof/powerfs. The power of one node or of all is cut, at a random time or at the n-th write, sync
//     or change of a name, and again during the start. Syncs fail, or are slow, or the disk is full.
//
// While one node is frozen, dead, cut off or slow, another one is sometimes killed and started at once, so that for a while
// most of the nodes are missing.
//
// # The load
//
// All users have the addresses of all nodes, and use another node when one fails.
//
//   - Producers create jobs, alone and in batches: with idempotency keys or numbers of a session, and then repeat a request
//     until it is answered; or with neither, once.
//   - Workers of the Go client, one in a stream and one in HTTP requests, complete jobs. A quarter of their jobs have an
//     on_complete.
//   - Claimers claim jobs by numbered requests, tickle some, are sometimes late or die, and complete the rest.
//   - Readers read what was acknowledged a moment ago at any node, also at one that is cut off or has just come back.
//   - Around the loss of a leader, probes create a job at each of the other nodes every 20 ms.
//
// # The account
//
// Each fault is followed by the proof that all nodes serve, vote and lack nothing. At the end of each cluster
//
//   - all jobs are completed;
//   - all nodes have the same documents of jobs, batches and queues, byte for byte;
//   - a job that is created at one node is read at each other node with the Daybook-Seq of the answer;
//   - each job that was acknowledged is there once, with the acknowledged id. A job whose create got no answer is there at
//     most once, and a job whose create was refused as not stored is not there;
//   - each acknowledged completion is there with its output, each output was returned by a handler, and each job with an
//     on_complete is followed by one job, with its output as the payload;
//   - the history of each job of the claimers is checked by github.com/anishathalye/porcupine against model.go: is there an
//     order of the requests that agrees with the times at which they began and ended, and in which each answer is right?
//     At most one claim holds a job, no other claim gets the job before its lease has ended, only the claim that holds it
//     completes it, each claim adds one attempt, and a job that is completed remains so;
//   - `daybook journal verify` and `daybook check` find nothing wrong in the data directory of any node.
//
// Each read under load must show what was acknowledged before it began.
//
// The report has the times without service: the longest time without a create that succeeded at another node, from the
// harm until the first create that began after it and succeeded.
//
// # Slow machines
//
// No time decides anything, except that a cluster must not be without service for a minute.
//
// # What it does not prove
//
//   - A claim that was repeated may have taken jobs in its first try, and lost them before the repeat. A claim that was answered
//     without jobs may have returned them, because its runner had let another lease end. The model uses such claims only for
//     histories that are impossible otherwise, and then each of them explains any job.
//   - The tests do not check that a lease runs out in time, nor the order in which jobs are handed out.
//   - All nodes are processes of one machine, with one clock. The networks lose packets, and do not delay, double or alter
//     them.
//   - Operators' requests (cancel, redrive, pause), documents and unique keys are not in the load.
//   - The kernel decides the order in which processes run. So a seed repeats the plan, not the run.
package cluster
