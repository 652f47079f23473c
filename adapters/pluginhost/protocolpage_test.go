// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/wire"
)

// TestProtocolPageHasTheNumbersOfTheHost checks that docs/plugin-protocol.md states the defaults of
// the supervision, the limits of messages and output, and the variables that a plugin may receive.
// Authors who do not write Go have only this page.
func TestProtocolPageHasTheNumbersOfTheHost(t *testing.T) {
	text, err := os.ReadFile("../../docs/plugin-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	numberWords := map[int]string{3: "three", 5: "five"}
	policy := SupervisionPolicy{}.withDefaults()
	for _, number := range []int{policy.CrashLimit, policy.MaxTimeouts} {
		if numberWords[number] == "" {
			t.Fatalf("numberWords has no word for %d", number)
		}
	}
	seconds := func(duration time.Duration) int { return int(duration / time.Second) }
	if policy.Cooldown != time.Minute {
		t.Errorf("the page says `one start a minute`, and the host waits %s", policy.Cooldown)
	}
	for _, variable := range allowedVariables {
		if !strings.Contains(page, "`"+variable+"`") {
			t.Errorf("the page does not name the variable %s", variable)
		}
	}
	for _, want := range []string{
		fmt.Sprintf("The process has %d seconds from its start to the answer of `Check`", seconds(policy.StartTimeout)),
		fmt.Sprintf("is not healthy after %d seconds", seconds(policy.StartTimeout)),
		fmt.Sprintf("The plugin has %d seconds to exit.", seconds(policy.StopGrace)),
		fmt.Sprintf("closes standard input, and kills the process after %d seconds", seconds(policy.StopGrace)),
		fmt.Sprintf("the old process can finish its calls for up to %d seconds", seconds(policy.DrainTimeout)),
		fmt.Sprintf("waits %d ms before the next start", policy.Backoff.Milliseconds()),
		numberWords[policy.CrashLimit] + " failures in a row | one start a minute",
		numberWords[policy.MaxTimeouts] + " calls in a row end at their deadlines",
		fmt.Sprintf("calls `Check` of the health service, with a deadline of %d second.", seconds(policy.PingTimeout)),
		fmt.Sprintf("after a call, at most every %d seconds", seconds(policy.UsageInterval)),
		fmt.Sprintf("A message has at most %d MiB, in both directions", wire.MaxMessage>>20),
		fmt.Sprintf("cuts a line after %d KiB, and each text that it logs after %d KiB", wire.MaxLine>>10, maxTextBytes>>10),
		fmt.Sprintf("at most %d lines a second, with bursts of up to %d", linesPerSecond, maxBurst),
		fmt.Sprintf("withholds all indented lines and up to %d other lines", maxPanicLines),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
