// Package intruder tries to use a server without the right to: on every route and with every verb of a stream, it sends each
// request as somebody who may not. api.Permits lists the routes and verbs, so a new one needs an entry here, or the tests fail.
//
// # What it proves
//
// For each request of requests_test.go, and for each verb of verbs_test.go
//
//   - no wrong credential gets in (credentials_test.go): no key, a wrong, malformed, revoked, expired or rotated one, two at a
//     time, the key of a role that the table of access does not name, and requests of foreign web pages;
//   - no wrong token of an issuer gets in (tokens_test.go): of another issuer, audience, key or algorithm, unsigned, expired, not yet
//     valid, or beside another credential; nor does anybody log in with one, and a stream ends with its token;
//   - no key of another client or of another type of jobs gets in (tenants_test.go): a request that names somebody else's things
//     gets the answer that it gets for things that do not exist, byte for byte but for their names, and lists and counts have
//     nothing of others;
//   - no key that hides payloads or fields of them gets to see them;
//   - after each of these requests the state is what it was: the commands in the journal, the blobs and uploads, the runners, and the
//     logs of running jobs.
//
// The same request with the right key succeeds, and changes the state if it is one that changes something. So the tests notice if
// a request is refused because it makes no sense, and if a change does not show in the state that they compare.
//
// # What it does not prove
//
//   - The expectations for tenants are written here by hand, a second time, but the roles of each route are those of the table of
//     access: the tests prove that the server obeys the table, not that the table is wise.
//   - Answers are compared by their bytes and not by the time that they take.
//   - Sequence numbers and ids of a tenant's own things tell how many commands the server carried out for others.
//   - The issuer's keys are in a file. proof/issuer has a real issuer, at which people log in.
package intruder
