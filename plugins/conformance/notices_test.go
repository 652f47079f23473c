// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// recorder is a test that may fail without consequence. What it starts ends
// with the real one.
type recorder struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (r *recorder) record(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, text)
}

func (r *recorder) Error(args ...any)                 { r.record(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.record(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func TestSuitesNotice(t *testing.T) {
	was := stopTime
	stopTime = time.Second
	t.Cleanup(func() { stopTime = was })
	linkTo := func(program, as string) Binary {
		path := filepath.Join(t.TempDir(), as)
		if err := os.Symlink(testserver.Program(t, "testdata/"+program), path); err != nil {
			t.Fatal(err)
		}
		return Binary{Path: path, Connect: func(string) sdk.Connection {
			return sdk.Connection{Settings: map[string]string{"do": "bare"}}
		}}
	}
	for _, tt := range []struct {
		name   string
		checks []check
		check  string
		plugin Binary
		says   string
	}{
		{"it does not start", pluginChecks, "it says who it is", linkTo("puppet", "mail-crashes"), "start"},
		{"another protocol", pluginChecks, "it says who it is", linkTo("hostile", "mail-liar"), "protocol version"},
		{"no version", pluginChecks, "it says who it is", linkTo("hostile", "mail-giant"), "version"},
		{"a name that is none", pluginChecks, "it says who it is", linkTo("puppet", "mail-Odd Name"), "provider's id"},
		{"no commands", pluginChecks, "describe and --version", linkTo("hostile", "mail-giant"), "exits"},
		{"it outlives its host", pluginChecks, "it ends when", linkTo("hostile", "mail-giant"), "killed"},
		{"errors without a kind", troubleChecks, "nobody listens", linkTo("puppet", "mail-puppet"), "want [down]"},
		{"panics as outcomes", troubleChecks, "the provider answers with pages", linkTo("puppet", "mail-puppet"), "did not say"},
		{"it answers though nobody does", troubleChecks, "no answer in time", linkTo("puppet", "mail-puppet"), "ended with"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{TB: t}
			for _, c := range tt.checks {
				if strings.HasPrefix(c.name, tt.check) {
					done := make(chan struct{})
					go func() {
						defer close(done)
						c.run(r, tt.plugin)
					}()
					<-done
				}
			}
			if all := strings.Join(r.said, "\n"); !strings.Contains(all, tt.says) {
				t.Fatalf("the suite says nothing about %q:\n%s", tt.says, all)
			}
		})
	}
}
