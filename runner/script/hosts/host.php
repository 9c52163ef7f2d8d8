<?php
// Runs handlers in PHP. docs/reference/script-protocol.md describes the messages on descriptor 3.

namespace {
    // What sources may use.

    // Fail ends a job for good. It may be thrown or returned.
    class Fail extends Exception {}

    // Retry runs a job again, after delay_ms or its backoff. It may be thrown or returned.
    class Retry extends Exception
    {
        public function __construct(string $text = '', public readonly ?int $delay_ms = null)
        {
            parent::__construct($text);
        }
    }

    // Bytes is an output of bytes that may happen to be valid UTF-8.
    final class Bytes
    {
        public function __construct(public readonly string $bytes) {}
    }

    // Job is what a handler can know of its job.
    final class Job
    {
        public string $id, $client, $type, $kind;
        public int $attempt, $max_attempts;
        public array $meta;
        public ?string $traceparent;
        public mixed $payload;
    }
}

namespace Daybook\Host {
    const MOST_PRINTS = 32 << 10; // bytes that a job may print before they are sent
    const MOST_ERROR = 16 << 10;
    const FLAGS = JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION | JSON_THROW_ON_ERROR;
    const DEPTH = 1 << 16;

    // State is what the host keeps. It has no global variables, because those are of the handlers.
    final class State
    {
        public static $in;
        public static $out;
        public static string $prints = '';
        public static array $handlers = []; // by number
        public static array $befores = []; // that were run
        public static string $part = 'handler'; // what is evaluated
        public static bool $own = false; // handle runs now
    }

    // Messages.

    function send(string $text): void
    {
        // At once, so that an answer is not lost when the next job ends the process.
        for ($rest = $text; $rest !== ''; $rest = substr($rest, $n)) {
            $n = @fwrite(State::$out, $rest);
            if ($n === false || $n === 0) {
                exit(0); // the runner is gone
            }
        }
    }

    function quote(string $text): string
    {
        return json_encode($text, FLAGS | JSON_INVALID_UTF8_SUBSTITUTE);
    }

    function is_utf8(string $text): bool
    {
        return preg_match('//u', $text) === 1;
    }

    // Prints.

    function printed(string $text): string
    {
        State::$prints .= $text;
        while (strlen(State::$prints) > MOST_PRINTS) {
            send('{"prints_b64":"' . base64_encode(substr(State::$prints, 0, MOST_PRINTS)) . "\"}\n");
            State::$prints = substr(State::$prints, MOST_PRINTS);
        }
        return '';
    }

    // prints_field takes what the job has printed.
    function prints_field(): string
    {
        while (ob_get_level() > 1) {
            ob_end_flush();
        }
        if (ob_get_length() > 0) {
            ob_flush();
        }
        if (State::$prints === '') {
            return '';
        }
        $field = is_utf8(State::$prints) ? ',"prints":' . quote(State::$prints) : ',"prints_b64":"' . base64_encode(State::$prints) . '"';
        State::$prints = '';
        return $field;
    }

    // Handlers.

    // renamed returns a source in which the functions $names, and calls of them, have the suffix $suffix: all functions of
    // PHP are global, and another handler of this process may have the same ones.
    function renamed(string $source, array $names, string $suffix): string
    {
        $tokens = \PhpToken::tokenize(str_starts_with(ltrim($source), '<?php') ? ltrim($source) : '<?php ' . $source, TOKEN_PARSE);
        $depth = 0;
        $text = '';
        $before = null; // the token before, without white space
        foreach ($tokens as $i => $token) {
            if ($token->is([T_OPEN_TAG]) && $i === 0) {
                continue;
            }
            $own = $token->text;
            if ($own === '{' || $token->is([T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES])) {
                $depth++;
            } elseif ($own === '}') {
                $depth--;
            } elseif ($token->is(T_STRING) && in_array(strtolower($own), $names, true)) {
                $declared = $before?->is(T_FUNCTION) && $depth === 0;
                $called = next_text($tokens, $i) === '(' && !$before?->is([T_FUNCTION, T_OBJECT_OPERATOR, T_NULLSAFE_OBJECT_OPERATOR, T_DOUBLE_COLON, T_NEW]);
                if ($declared || $called) {
                    $own .= $suffix;
                }
            }
            $text .= $own;
            if (!$token->isIgnorable() && $own !== '&') {
                $before = $token;
            }
        }
        return $text;
    }

    function next_text(array $tokens, int $i): string
    {
        while (isset($tokens[++$i])) {
            if (!$tokens[$i]->isIgnorable()) {
                return $tokens[$i]->text;
            }
        }
        return '';
    }

    // sources yields what the caller evaluates in the global scope to load a handler.
    function sources(array $m): \Generator
    {
        $before = $m['before'] ?? '';
        if ($before !== '' && !isset(State::$befores[$before])) {
            State::$befores[$before] = true;
            State::$part = 'before';
            yield renamed($before, [], '');
        }
        $functions = [];
        foreach (['handle' => '$payload, $job', 'before_each' => '$jobs', 'after_each' => '$jobs'] as $name => $arguments) {
            $source = $m[$name === 'handle' ? 'source' : $name] ?? '';
            $function = null;
            if ($source !== '') {
                State::$part = $name === 'handle' ? 'handler' : $name;
                yield renamed($source, [$name], "_$m[load]");
                $function = "{$name}_$m[load]";
                if (!function_exists($function)) {
                    throw new \Error("the source defines no function $name($arguments)");
                }
            }
            $functions[] = $function;
        }
        State::$part = 'handler';
        State::$handlers[$m['load']] = $functions;
        send("{\"loaded\":$m[load]}\n");
    }

    // Batches.

    function parse(array $batch): \Job
    {
        $fields = json_decode(fgets(State::$in), true, DEPTH, JSON_THROW_ON_ERROR);
        $job = new \Job();
        $job->id = $fields['id'];
        $job->client = $batch['client'];
        $job->type = $batch['type'];
        $job->kind = $fields['kind'];
        $job->attempt = $fields['attempt'];
        $job->max_attempts = $fields['max_attempts'];
        $job->meta = $fields['meta'] ?? [];
        $job->traceparent = $fields['traceparent'] ?? null;
        $job->payload = isset($fields['payload_b64']) ? base64_decode($fields['payload_b64']) : ($fields['payload'] ?? null);
        return $job;
    }

    function run(array $batch): void
    {
        [$handle, $before_each, $after_each] = State::$handlers[$batch['handler']];
        $count = $batch['batch'];
        $jobs = null;
        if ($before_each || $after_each) {
            for ($jobs = []; count($jobs) < $count;) {
                $jobs[] = parse($batch);
            }
        }
        if ($before_each) {
            try {
                $before_each($jobs);
            } catch (\Throwable $error) {
                send('{"begun":true,"error":' . quote(describe($error)) . "}\n");
                return;
            }
            send("{\"begun\":true}\n");
        }
        for ($i = 0; $i < $count; $i++) {
            try {
                $job = $jobs ? $jobs[$i] : parse($batch);
                State::$own = true;
                $answer = answer_of($handle($job->payload, $job));
            } catch (\Throwable $error) {
                $answer = failure($error);
            }
            State::$own = false;
            if (function_exists('pcntl_alarm')) {
                pcntl_alarm(0); // it would hit the next job
            }
            $done = $i === $count - 1 && !$after_each ? "{\"done\":true}\n" : '';
            send("{\"job\":$i,$answer" . prints_field() . "}\n$done");
        }
        if ($after_each) {
            try {
                $after_each($jobs);
                send('{"done":true' . prints_field() . "}\n");
            } catch (\Throwable $error) {
                send('{"done":true,"error":' . quote(describe($error)) . prints_field() . "}\n");
            }
        }
    }

    // next_load runs batches until there is a handler to load, or no message any more.
    function next_load(): ?array
    {
        while (($line = fgets(State::$in)) !== false) {
            $message = json_decode($line, true, DEPTH, JSON_THROW_ON_ERROR);
            if (isset($message['load'])) {
                return $message;
            }
            run($message);
        }
        return null;
    }

    function answer_of(mixed $value): string
    {
        if (is_string($value)) {
            return is_utf8($value) ? '"code":"ok","output":' . quote($value) : '"code":"ok","output_b64":"' . base64_encode($value) . '"';
        }
        if ($value === null) {
            return '"code":"ok"';
        }
        if ($value instanceof \Fail || $value instanceof \Retry) {
            return failure($value);
        }
        if ($value instanceof \Bytes) {
            return '"code":"ok","output_b64":"' . base64_encode($value->bytes) . '"';
        }
        return '"code":"ok","output":' . json_encode($value, FLAGS);
    }

    function failure(\Throwable $error): string
    {
        $text = quote(substr($error->getMessage(), 0, MOST_ERROR));
        if ($error instanceof \Fail) {
            return '"code":"failed","error":' . $text;
        }
        if ($error instanceof \Retry) {
            return '"code":"retry","error":' . $text . ($error->delay_ms === null ? '' : ',"delay_ms":' . max(0, $error->delay_ms));
        }
        return '"code":"error","error":' . quote(describe($error));
    }

    // describe returns the text of an error and the part of its stack that is of the handler.
    function describe(\Throwable $error): string
    {
        $text = get_class($error) . ': ' . $error->getMessage() . place($error->getFile(), $error->getLine());
        foreach (array_slice($error->getTrace(), 0, 10) as $frame) {
            $function = preg_replace('/^(handle|before_each|after_each)_\d+$/', '$1', $frame['function'], -1, $entry);
            if (!$entry && ($frame['file'] ?? '') === __FILE__) {
                break; // the host
            }
            $text .= "\n    at " . ($frame['class'] ?? '') . ($frame['type'] ?? '') . $function . place($frame['file'] ?? __FILE__, $frame['line'] ?? 0);
        }
        return substr($text, 0, MOST_ERROR);
    }

    function place(string $file, int $line): string
    {
        return match (true) {
            $file === __FILE__ => '',
            $file === '', str_starts_with($file, __FILE__) => ' in ' . State::$part . ".php:$line",
            default => " in $file:$line",
        };
    }

    register_shutdown_function(function () {
        $field = prints_field();
        // After a fatal error it is not known whether the job is the reason: an earlier one may have declared the same function.
        if (State::$own && !in_array(error_get_last()['type'] ?? 0, [E_ERROR, E_CORE_ERROR, E_COMPILE_ERROR, E_USER_ERROR], true)) {
            send("{\"exits\":true$field}\n");
        } elseif ($field !== '') {
            send('{' . substr($field, 1) . "}\n");
        }
    });
    // Each has its own buffer: a stream that reads and writes would lose what it has read.
    State::$in = fopen('php://fd/3', 'r');
    stream_set_chunk_size(State::$in, 64 << 10);
    State::$out = fopen('php://fd/3', 'w');
    ob_start(printed(...), MOST_PRINTS, PHP_OUTPUT_HANDLER_CLEANABLE | PHP_OUTPUT_HANDLER_FLUSHABLE);
    while (($daybook_message = next_load()) !== null) {
        try {
            foreach (sources($daybook_message) as $daybook_source) {
                eval($daybook_source);
            }
        } catch (\Throwable $daybook_error) {
            send("{\"loaded\":$daybook_message[load],\"error\":" . quote(describe($daybook_error)) . "}\n");
        }
    }
}
