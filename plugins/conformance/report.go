// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// Status says how a check ended.
type Status string

// The statuses of a check.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Result is the result of one check. Its messages and calls are redacted (see exchange).
type Result struct {
	ID     string
	Proves string
	Status Status
	// Reason is why the check was skipped.
	Reason string
	// Messages are the texts that the check reported.
	Messages []string
	// Calls are the last calls of a failed check, oldest first: from the host to the plugin, and
	// from the plugin to its provider. They include the lines that the plugin printed.
	Calls    []string
	Duration time.Duration
}

// Report has the results of Test.
type Report struct {
	File, Name, Kind, Version string
	Against                   string // "simulator" or "real"
	Results                   []Result
}

// WriteText writes the result for people: one line, and for a failed check also its messages and
// calls.
func (r Result) WriteText(w io.Writer) error {
	word := map[Status]string{Passed: "ok  ", Failed: "FAIL", Skipped: "skip"}[r.Status]
	line := fmt.Sprintf("%s  %-36s %s", word, r.ID, r.Proves)
	if r.Status == Skipped {
		line = fmt.Sprintf("%s  %-36s %s", word, r.ID, r.Reason)
	}
	lines := []string{printable(line)}
	if r.Status == Failed {
		for _, message := range r.Messages {
			lines = append(lines, "      "+strings.ReplaceAll(printable(strings.TrimRight(message, "\n")), "\n", "\n      "))
		}
		for _, call := range r.Calls {
			lines = append(lines, "        "+printable(call))
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// Summary returns the last line of the report for people.
func (r Report) Summary() string {
	return fmt.Sprintf("%s: %d passed, %d failed, %d skipped", strings.TrimSpace(r.Name+" "+r.Version), r.Count(Passed), r.Count(Failed), r.Count(Skipped))
}

// Count returns the number of checks with a status.
func (r Report) Count(s Status) (n int) {
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}

// Complete returns false if a check was skipped because the plugin has no simulator, and otherwise
// true.
func (r Report) Complete() bool {
	for _, result := range r.Results {
		if result.Status == Skipped && result.Reason == noSimulatorReason {
			return false
		}
	}
	return true
}

// The elements of JUnit XML.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
		Skipped *junitSkipped `xml:"skipped"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

// WriteJUnit writes the report as JUnit XML.
func (r Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{
		Name: r.Name, Tests: len(r.Results), Failures: r.Count(Failed), Skipped: r.Count(Skipped),
	}
	var total time.Duration
	for _, result := range r.Results {
		total += result.Duration
		c := junitCase{Class: "tenantry.plugin." + r.Name, Name: result.ID, Time: seconds(result.Duration)}
		switch result.Status {
		case Failed:
			c.Failure = &junitFailure{
				Message: result.Proves,
				Text:    printable(strings.Join(result.Messages, "\n") + "\n\n" + strings.Join(result.Calls, "\n")),
			}
		case Skipped:
			c.Skipped = &junitSkipped{result.Reason}
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Time = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	return encoder.Encode(suite)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// printable replaces each control character by a space, except line breaks and tabs. XML does not
// allow most other control characters, and they could move a terminal's cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, text)
}
