// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/wire"
)

// longTimeouts has timeouts of minutes, which only a plugin that hangs exceeds.
var longTimeouts = pluginhost.SupervisionPolicy{StartTimeout: 4 * time.Minute, PingTimeout: 4 * time.Minute, StopGrace: 4 * time.Minute, Backoff: time.Millisecond}

// programFiles is a folder of npm packages without TypeScript files, source maps, Markdown pages
// and hidden files. Node.js does not read such files. Without them the tests are faster, because an
// installation copies and checks every file.
type programFiles struct{ fs.FS }

func (f programFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return slices.Contains([]string{".ts", ".map", ".md"}, path.Ext(e.Name())) || strings.HasPrefix(e.Name(), ".")
	}), err
}

// install adds a plugin to the catalog of a new plugin folder. It adds the plugin twice, and the
// second call must change nothing.
func install(t *testing.T, p plugin) (dir string, entry pluginhost.CatalogEntry) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "plugins")
	for _, want := range []pluginhost.Change{pluginhost.Added, pluginhost.Unchanged} {
		change, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: longTimeouts}, p.entry)
		if err != nil || change.Change != want {
			t.Fatalf("Add returns the change %s, %v, want %s", change.Change, err, want)
		}
		entry = change.CatalogEntry
	}
	return dir, entry
}

// describe starts the plugin in a new host and returns the error of Host.Describe.
func describe(t *testing.T, dir, name string) error {
	t.Helper()
	host, err := pluginhost.New(pluginhost.Options{Dir: dir, Supervision: longTimeouts})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	_, err = host.Describe(t.Context(), name)
	return err
}

// TestOneChecksumCoversEveryFile changes the files of an installed plugin, and one file in each of
// its folders. A changed file is refused. A file that is added is not loaded, even if the
// interpreter would prefer the file.
func TestOneChecksumCoversEveryFile(t *testing.T) {
	eachTemplate(t, allKinds, func(t *testing.T, p plugin) {
		dir, entry := install(t, p)
		if entry.Name != "acme" || entry.Kind != p.kind || entry.File != p.kind+"-acme" {
			t.Fatalf("the entry is %+v, want the %s plugin acme", entry, p.kind)
		}
		if err := describe(t, dir, entry.Name); err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(dir, entry.File)
		for _, name := range append([]string{entry.File}, p.files...) {
			name := firstFile(t, folder, name)
			path := filepath.Join(folder, name)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(slices.Clone(content), '\n'), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := describe(t, dir, entry.Name); !errors.Is(err, verified.ErrChecksum) || !strings.Contains(err.Error(), name) {
				t.Errorf("the file %s was changed: %v, want ErrChecksum with its name", name, err)
			}
			if err := os.WriteFile(path, content, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, planted := range p.shadowingFiles {
			path := filepath.Join(folder, planted)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("this is not a program"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := describe(t, dir, entry.Name); err != nil {
			t.Errorf("after files were added, describing the plugin: %v, want no error", err)
		}
	})
}

// firstFile returns member if it is a file of the folder. If member is a folder, it returns the
// first file inside it.
func firstFile(t *testing.T, folder, member string) string {
	t.Helper()
	first := ""
	err := fs.WalkDir(os.DirFS(folder), member, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		first = name
		return fs.SkipAll
	})
	if err != nil || first == "" {
		t.Fatalf("no file in %s: %v", member, err)
	}
	return first
}

// TestUpgradeTakesOverAndRemovalDeletes upgrades a plugin twice while a host runs it, and removes
// the plugin. The new version gets the calls, and the files of the previous version stay. The
// removal deletes the installed files. After the host is closed, no copy of a plugin's files is
// left.
func TestUpgradeTakesOverAndRemovalDeletes(t *testing.T) {
	eachTemplate(t, onlyDNS, func(t *testing.T, p plugin) {
		entry, dir := p.entry, filepath.Join(t.TempDir(), "plugins")
		private := t.TempDir()
		t.Setenv("TMPDIR", private)
		if _, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: longTimeouts}, entry); err != nil {
			t.Fatal(err)
		}
		host, err := pluginhost.New(pluginhost.Options{Dir: dir, Supervision: longTimeouts})
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		if _, err := host.Describe(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		version, previous := "0.1.0", "dns-acme"
		for _, next := range []string{"0.2.0", "0.3.0"} {
			replaceIn(t, filepath.Join(filepath.Dir(entry), p.versionFile), version, next)
			if _, err := pluginhost.Upgrade(t.Context(), pluginhost.Options{Dir: dir, Supervision: longTimeouts}, entry); !errors.Is(err, verified.ErrChecksum) {
				t.Fatalf("an upgrade without a new manifest: %v, want ErrChecksum", err)
			}
			if _, err := verified.WriteManifest(entry, p.files); err != nil {
				t.Fatal(err)
			}
			change, err := pluginhost.Upgrade(t.Context(), pluginhost.Options{Dir: dir, Supervision: longTimeouts}, entry)
			if err != nil || change.Change != pluginhost.Replaced || change.Version != next || change.Previous.File != previous {
				t.Fatalf("the upgrade returns %+v, %v, want version %s instead of %s", change, err, next, previous)
			}
			if err := host.Reload(); err != nil {
				t.Fatal(err)
			}
			if d, err := host.Describe(t.Context(), "acme"); err != nil || d.Version != next {
				t.Fatalf("the description has version %s, %v, want %s", d.Version, err, next)
			}
			if _, err := os.Stat(filepath.Join(dir, previous)); err != nil {
				t.Errorf("the files of the previous version: %v, want them kept", err)
			}
			version, previous = next, change.File
		}
		if inspected, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Supervision: longTimeouts}); err != nil || len(inspected) != 1 || inspected[0].Problem != nil {
			t.Errorf("the inspection returns %+v, %v, want one plugin without a problem", inspected, err)
		}
		if _, err := pluginhost.Remove(dir, "acme"); err != nil {
			t.Fatal(err)
		}
		if remaining, err := filepath.Glob(filepath.Join(dir, "dns-acme*")); err != nil || len(remaining) > 0 {
			t.Errorf("after the removal the plugin folder has %v, %v, want no file of the plugin", remaining, err)
		}
		host.Close()
		if remaining, err := filepath.Glob(filepath.Join(private, "tenantry-plugin-*")); err != nil || len(remaining) > 0 {
			t.Errorf("after the host was closed, the private copies are %v, %v, want none", remaining, err)
		}
	})
}

// replaceIn replaces a text in a file.
func replaceIn(t *testing.T, path, before, after string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(content), before, after, 1)
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil || changed == string(content) {
		t.Fatalf("replacing %q in %s: %v, want a change", before, path, err)
	}
}

// TestSandboxRunsTheTemplate connects an installed plugin to its simulator in a sandbox. The DNS
// server of the sandbox serves the records that the plugin writes, and the plugin reads records
// that a person has changed.
func TestSandboxRunsTheTemplate(t *testing.T) {
	eachTemplate(t, onlyDNS, func(t *testing.T, p plugin) {
		dir, entry := install(t, p)
		env, err := sandbox.Start(t.Context(), sandbox.Options{DataDir: t.TempDir(), PluginDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := env.Close(); err != nil {
				t.Error(err)
			}
		})
		control := httptest.NewServer(env.Control(sandbox.Services{WakeDueJobs: func(context.Context) error { return nil }}))
		t.Cleanup(control.Close)
		askSandbox := func(method, path, body string) string { return askControl(t, method, control.URL+path, body) }
		askSandbox(http.MethodPost, "/zones", `{"name":"customer.test","provider":"acme"}`)
		askSandbox(http.MethodPost, "/clock", `{"advance":"24h"}`)

		host, err := pluginhost.New(pluginhost.Options{Dir: dir, Supervision: longTimeouts})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(host.Close)
		provider := host.DNS(entry.Name, func(context.Context) (wire.Connection, error) {
			return wire.Connection{Settings: env.Settings()["acme"], Secrets: env.Secrets()["acme"]}, nil
		})
		zone, err := provider.Zone(t.Context(), "customer.test")
		if servers := sandbox.NameServers("acme"); err != nil || !slices.Equal(zone.NameServers, servers) {
			t.Fatalf("the zone is %+v, %v, want the name servers %q", zone, err, servers)
		}
		mx := dns.RRSet{Name: "customer.test", Type: dns.MX, TTL: 300, Values: []string{"10 mail.customer.test"}}
		if _, err := provider.Apply(t.Context(), zone, []dns.Change{{Before: dns.RRSet{Name: mx.Name, Type: mx.Type}, After: mx}}); err != nil {
			t.Fatal(err)
		}
		if got, want := askSandbox(http.MethodGet, "/zones/customer.test/records", ""), `[{"type":"MX","name":"customer.test","content":"mail.customer.test","ttl":300,"priority":10}]`; got != want {
			t.Errorf("the sandbox serves %s, want %s", got, want)
		}
		askSandbox(http.MethodPut, "/zones/customer.test/records", `[{"type":"TXT","name":"customer.test","content":"by hand é","ttl":60}]`)
		sets, err := provider.Records(t.Context(), zone)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]dns.RRSet{{Name: "customer.test", Type: dns.TXT, TTL: 60, Values: []string{"by hand é"}}}, sets); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		askSandbox(http.MethodPost, "/faults", `{"provider":"acme","kind":"status","status":503,"retry_after":600,"times":1}`)
		var result *outcome.Error
		if _, err := provider.Check(t.Context()); !errors.As(err, &result) || result.Kind != outcome.Down || result.RetryAfter != 10*time.Minute {
			t.Errorf("with a planned 503: %v, want down for 10 minutes", err)
		}
		if _, err := provider.Check(t.Context()); outcome.KindOf(err) != outcome.Throttled {
			t.Errorf("before the Retry-After has passed: %v, want throttled", err)
		}
		var calls []simulate.Entry
		if err := json.Unmarshal([]byte(askSandbox(http.MethodGet, "/calls?provider=acme", "")), &calls); err != nil {
			t.Fatal(err)
		}
		if last := len(calls); last != 5 || calls[last-1].Path != "/v1/zones" || calls[last-1].Status != http.StatusServiceUnavailable || time.Until(calls[last-1].At) < 23*time.Hour {
			t.Errorf("the calls are %+v, want five, the last one a 503 of /v1/zones at the advanced clock", calls)
		}
	})
}

// TestSandboxRunsTheChosenMailPlatform installs two mail plugins, and starts one sandbox for each
// of them with this plugin as the mail platform. After the administrator of a tenant has consented,
// Granted returns the id of the tenant.
func TestSandboxRunsTheChosenMailPlatform(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	for _, program := range []string{testserver.Program(t, "release/plugins/mail-microsoft365"), testserver.Program(t, "testdata/go-mail")} {
		if _, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: longTimeouts}, program); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"example", "microsoft365"} {
		t.Run(name, func(t *testing.T) {
			env, err := sandbox.Start(t.Context(), sandbox.Options{DataDir: t.TempDir(), PluginDir: dir, MailPlatform: name})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := env.Close(); err != nil {
					t.Error(err)
				}
			})
			host, err := pluginhost.New(pluginhost.Options{Dir: dir, Supervision: longTimeouts})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(host.Close)
			platform := host.Mail(name, func(context.Context) (wire.Connection, error) {
				return wire.Connection{Settings: env.Settings()[name], Secrets: env.Secrets()[name]}, nil
			})
			control := httptest.NewServer(env.Control(sandbox.Services{
				Consent: platform, APIURL: "http://127.0.0.1:1", WakeDueJobs: func(context.Context) error { return nil },
			}))
			t.Cleanup(control.Close)
			var tenant struct {
				ID    string `json:"tenant_id"`
				Admin string `json:"admin"`
			}
			if err := json.Unmarshal([]byte(askControl(t, http.MethodPost, control.URL+"/tenants", `{"name":"Ann"}`)), &tenant); err != nil {
				t.Fatal(err)
			}
			if err := platform.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			page, err := platform.ConsentURL(t.Context(), "state", "http://127.0.0.1:8080/connect/"+name+"/callback")
			if err != nil {
				t.Fatal(err)
			}
			form := url.Values{"username": {tenant.Admin}, "decision": {"accept"}}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader(form.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			request.Header.Set("Accept", "text/html")
			browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			answer, err := browser.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			redirect, err := answer.Location()
			if err != nil {
				t.Fatal(err)
			}
			if granted, err := platform.Granted(t.Context(), redirect.RawQuery); err != nil || string(granted) != tenant.ID {
				t.Fatalf("granted %s, %v, want %s", granted, err, tenant.ID)
			}
		})
	}
}

// askControl makes a call of the control interface and returns the body of the answer.
func askControl(t *testing.T, method, url, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s, %v, want 200", method, url, answer.StatusCode, content, err)
	}
	return strings.TrimSpace(string(content))
}
