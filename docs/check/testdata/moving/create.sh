# Creates the jobs that wait in each queue when docs/how-to/moving.md begins to move them. TestMoving runs this script in the
# directory of the page, with FILES as this directory, and REDIS_URL, DATABASE_URL and the AWS variables as the servers.
set -euxo pipefail

# Redis Streams: the first entry is acknowledged, the second one only delivered, and the third one is not delivered.
redis() { redis-cli -u "$REDIS_URL" --json "$@"; }
for n in 1 2 3; do redis XADD mail '*' to "user $n"; done
redis XGROUP CREATE mail workers 0
redis XREADGROUP GROUP workers w1 COUNT 2 STREAMS mail '>' >read.json
redis XACK mail workers "$(jq -r '.mail[0][0]' read.json)"

# The page's program finds these packages in its directory, and this one, a folder below, finds them there too.
npm install --no-fund --no-audit bullmq@6.7 ioredis@5
mkdir before
cp "$FILES/bullmq.mjs" before
node before/bullmq.mjs

ruby "$FILES/sidekiq_jobs.rb"
python "$FILES/celery_tasks.py"
python "$FILES/sqs_messages.py"

mkdir before/river
cp "$FILES/river/main.go" before/river
cd before/river
go mod init before
go get github.com/riverqueue/river@v0.51.1 github.com/riverqueue/river/riverdriver/riverpgxv5@v0.51.1
go mod tidy
go run .
