package main

import (
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/cmd/daybook/internal/serve"
)

func newServe() *cobra.Command {
	f := serve.NewFlags(api.Version{Version: version, Commit: commit})
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until it receives SIGTERM or SIGINT, or SIGHUP when its terminal is closed (not with nohup).
Then it stops gracefully: requests under way may take up to --drain to end. A signal half a second or more
after the first ends it at once, as SIGKILL would. No acknowledged job is lost in either case.

The server prints its address as "listening on http://…", or https:// with TLS. The file "address" in the
data directory has the address too, until a clean stop. The server listens before it is ready: while it
replays the journal, /readyz reports that it is not ready.

Until the server has a key (` + "`daybook key create`" + `), everybody who can connect may use it. On an address that
other machines can connect to, it listens only with TLS and a key: one that it has already, or that of
--admin-key-file. With --insecure it needs neither to start, and logs a warning at every start; keys that it has
are required all the same.

With --admin-key-file every request needs a key from the first start on. If the file does not exist, the server
makes it, with a key that has the role admin, and stores the key before it is ready. If the file exists, its
owner alone may be able to read it, and the server stores its key if it does not know it: after a restore, or if
no other admin is left. A key that was revoked or rotated is not stored again. Delete the file then, and the next
start makes another one.

With --tls-cert and --tls-key the server speaks TLS to its clients, and nothing else on that port. It uses
new files within ten seconds, or at SIGHUP, which then does not stop it. If the new files cannot be used, it
logs why and continues with the old ones. With --tls-client-ca, clients need certificates that these
authorities have signed. ` + "`daybook tls self-signed`" + ` makes certificates for trials.

The default data directory is created if it does not exist. A directory that --data names must have a
journal, unless --init is given. Otherwise the server would start with an empty queue when a disk is not
mounted.

A server that other machines can connect to announces itself on the local network by multicast DNS, so
that ` + "`daybook discover`" + ` and --server mdns: find it. With --mdns off it is not announced. With --mdns on
the start fails if it cannot be announced.

The Host of a request must be an IP address, localhost, or a name that --allow-host lists. Otherwise a web
page could reach the server by a name of its own. In containers and clusters, use for example --allow-host
daybook or --allow-host '*.svc.cluster.local'. --allow-host '*' allows every name.

Blobs are files in the directory of --blobs. --blobs can also name a bucket of S3, or of a service that speaks
its protocol: 's3://BUCKET/PREFIX?region=eu-west-1', or 's3://BUCKET/PREFIX?endpoint=https://HOST&lookup=path'.
The credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from the shared credentials file
(AWS_PROFILE), or from the role of the machine, and are never a part of the address.

A runner that misses three heartbeats is lost: the server returns its jobs. With --on-lost it also does
something for each lost runner, for example shut its machine down. A value that begins with http:// or
https:// is a URL that gets a POST request. Anything else is a command for sh -c, with DAYBOOK_RUNNER_ID in
its environment. Both get the document of the runner as JSON: the request as its body, the command on its
standard input. Lost runners are handled one at a time, each in up to three tries of up to 30 s.

With --otlp, or with OTEL_EXPORTER_OTLP_ENDPOINT in the environment, the server exports a span of
OpenTelemetry for each run of a job. OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER and the other variables
of OpenTelemetry are read too. --otlp has precedence over the variables with an endpoint.

With --opsqueue the server has a second listener, for the clients of Opsqueue: docs/how-to/from-opsqueue.md. Their
chunks are jobs of the client opsqueue and the type chunk.

Variables and configuration files can have these settings too: ` + "`daybook help configuration`" + `. ` + "`daybook config`" + `
prints all settings and the origin of each.`,
		Example: `  daybook serve --listen 127.0.0.1:0 --data /var/lib/daybook --init
  DAYBOOK_LOG_FORMAT=console daybook serve --abandoned-age 60s --retention 30d
  daybook serve --on-lost 'aws ec2 terminate-instances --instance-ids "$DAYBOOK_RUNNER_ID"'
  daybook serve --tls-cert daybook-tls/server.pem --tls-key daybook-tls/server-key.pem
  daybook serve --listen 0.0.0.0:0 --tls-cert daybook-tls/server.pem --tls-key daybook-tls/server-key.pem --admin-key-file admin.key
  daybook serve --config /etc/daybook.toml`,
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return f.Check() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve.Run(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.Define(cmd.Flags())
	cobra.CheckErr(cmd.MarkFlagDirname("data"))
	cobra.CheckErr(cmd.MarkFlagDirname("blobs"))
	return cmd
}
