<?php
// Fails the program where an answer is not what is expected.

function expect(string $what, $expected, $actual): void
{
    if ($expected != $actual) {
        fwrite(STDERR, "$what: expected " . json_encode($expected) . ', got ' . json_encode($actual) . "\n");
        exit(1);
    }
}

// What the error of a call is an instance of.
function failure(callable $call): string
{
    try {
        $call();
    } catch (Throwable $error) {
        return get_class($error);
    }
    return 'no error';
}
