// SPDX-License-Identifier: Apache-2.0

// Command secretscan fails when a file contains a text in the form of a secret: an API key of
// tenantry, a private key, an age identity, a client secret of Microsoft Entra, a key of other
// well-known services, or a signed token.
//
//	git ls-files -z | go run ./.ci/secretscan
//
// It reads the names of the files from standard input. With `git ls-files` it scans the files that
// git tracks. A line of a test may contain such a text if it has the comment `secretscan:allow
// REASON`.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// patterns are the forms of secrets. The prefix of an API key is a setting. The pattern finds
// prefixes of 2 to 16 lower-case letters and digits, which begin with a letter.
var patterns = []struct {
	name string
	form *regexp.Regexp
}{
	{"an API key", regexp.MustCompile(`\b[a-z][a-z0-9]{1,15}_(live|trial)_[0-9a-f]{48}\b`)},
	{"a private key", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\s*[A-Za-z0-9+/]{40}`)},
	{"a private key as a string", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\\n[A-Za-z0-9+/]{40}`)},
	{"an age identity", regexp.MustCompile(`\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b`)},
	{"a client secret", regexp.MustCompile(`(^|[^A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}($|[^A-Za-z0-9_~.-])`)},
	{"a cloud key", regexp.MustCompile(`\b(AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|xox[bp]-[0-9A-Za-z-]{20,})\b`)},
	{"a signed token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{16,}\.eyJ[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}`)},
}

const allowComment = "secretscan:allow "

func main() {
	found, err := run(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "secretscan:", err)
		os.Exit(2)
	}
	if found > 0 {
		fmt.Fprintln(os.Stderr, "secretscan: remove the secret and revoke it, because others may have read it. A test must create its secrets when it runs, or have the comment secretscan:allow REASON in the line.")
		os.Exit(1)
	}
}

// run scans the files whose names it reads, and writes a line for each finding. The line does not
// contain the text that was found. run returns the number of findings.
func run(names io.Reader, out io.Writer) (found int, err error) {
	list := bufio.NewScanner(names)
	list.Split(byNUL)
	for list.Scan() {
		content, err := os.ReadFile(list.Text())
		if os.IsNotExist(err) {
			continue // the file was deleted, but git still lists it
		}
		if err != nil {
			return found, err
		}
		for _, hit := range scan(content, isTestFile(list.Text())) {
			found++
			_, _ = fmt.Fprintf(out, "%s:%d: looks like %s\n", list.Text(), hit.line, hit.pattern)
		}
	}
	return found, list.Err()
}

type hit struct {
	line    int
	pattern string // the name of the pattern
}

// scan returns the findings in the content of a file. If commentAllows is true, it leaves out lines
// with the comment secretscan:allow.
func scan(content []byte, commentAllows bool) (hits []hit) {
	for _, p := range patterns {
		for _, at := range p.form.FindAllIndex(content, -1) {
			if !commentAllows || !bytes.Contains(lineAt(content, at[0]), []byte(allowComment)) {
				hits = append(hits, hit{bytes.Count(content[:at[0]], []byte("\n")) + 1, p.name})
			}
		}
	}
	return hits
}

func lineAt(content []byte, at int) []byte {
	begin := bytes.LastIndexByte(content[:at], '\n') + 1
	if end := bytes.IndexByte(content[at:], '\n'); end >= 0 {
		return content[begin : at+end]
	}
	return content[begin:]
}

// isTestFile reports whether a file belongs to a test. In all other files the comment
// secretscan:allow has no effect.
func isTestFile(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/")
}

func byNUL(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
