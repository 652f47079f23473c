// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

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
	dir := t.TempDir()
	copyOf := func(program, as string) Binary {
		built := filepath.Join(dir, program)
		if out, err := exec.Command("go", "build", "-o", built, "../../adapters/pluginhost/testdata/"+program).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		content, err := os.ReadFile(built)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, as)
		if err := os.WriteFile(path, content, 0o755); err != nil {
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
		{"it does not start", pluginChecks, "it says who it is", copyOf("puppet", "mail-crashes"), "start"},
		{"another protocol", pluginChecks, "it says who it is", copyOf("hostile", "mail-liar"), "protocol version"},
		{"no version", pluginChecks, "it says who it is", copyOf("hostile", "mail-giant"), "version"},
		{"a name that is none", pluginChecks, "it says who it is", copyOf("puppet", "mail-Odd Name"), "provider's id"},
		{"no commands", pluginChecks, "describe and --version", copyOf("hostile", "mail-giant"), "exits"},
		{"it outlives its host", pluginChecks, "it ends when", copyOf("hostile", "mail-giant"), "killed"},
		{"errors without a kind", troubleChecks, "nobody listens", copyOf("puppet", "mail-puppet"), "want [down]"},
		{"panics as outcomes", troubleChecks, "the provider answers with pages", copyOf("puppet", "mail-puppet"), "did not say"},
		{"it answers though nobody does", troubleChecks, "no answer in time", copyOf("puppet", "mail-puppet"), "ended with"},
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
