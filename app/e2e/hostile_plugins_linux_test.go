// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// hostilePlugin is testdata/rogue under a name of its own. The name selects what the program does
// when the service tests a credential.
type hostilePlugin struct {
	name string
	// status and code are those of the API's answer to the request that tests the credential.
	status int
	code   string
	// cause is the cause that the log gives for the failed call.
	cause string
	// logTexts are texts that one log line about the plugin contains.
	logTexts []string
}

var hostilePlugins = []hostilePlugin{
	{"giant", http.StatusBadGateway, "provider_error", "plugin_too_large", nil},
	{"mistyped", http.StatusBadGateway, "provider_error", "plugin_protocol", nil},
	{"exits", http.StatusGatewayTimeout, "provider_timeout", "plugin_gone", []string{"exit status 4"}},
	{"forks", http.StatusGatewayTimeout, "provider_timeout", "plugin_gone", []string{"exit status 50"}},
	{"opens", http.StatusGatewayTimeout, "provider_timeout", "plugin_gone", []string{"plugin has almost reached a limit", `"resource":"open files"`}},
	{"tells", http.StatusGatewayTimeout, "provider_timeout", "plugin_gone", []string{"the key is [redacted]"}},
	{"hangs", http.StatusGatewayTimeout, "provider_timeout", "plugin_deadline", nil},
}

// TestServiceSurvivesHostilePlugins starts a service with plugins that misbehave: they send wrong
// answers, hang, exit, use many resources or print secrets. A request to each plugin gets the
// expected error. Afterwards the service is ready, the mail platform answers, and the log names
// each plugin and no secret. The plugin that hangs is called first, so that the other calls are
// made while its call waits.
func TestServiceSurvivesHostilePlugins(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := append(fixture.env(t.TempDir(), ""), "TENANTRY_PLUGIN_DIR="+fixture.hostilePluginDir())
	_, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	service, serverClient := fixture.serve(env)
	c := caller{client: serverClient, key: key}
	secrets := map[string]string{}
	checkHealthy := func(during string) {
		t.Helper()
		// On a busy machine a single check of the database can time out.
		c.eventually(during+": /readyz answers 200", func() bool { return c.do("GET", c.ready.AdminURL+"/readyz", "", nil).status == http.StatusOK })
		if link := c.get("/v1/tenants/connect-url").text("connect_url"); link == "" {
			t.Errorf("%s: the mail platform returns no link", during)
		}
	}
	startRequest := func(h hostilePlugin) func() {
		secrets[h.name] = rand.Text()
		body := object{"provider": h.name, "name": "Hostile", "api_key": secrets[h.name]}
		answered := make(chan reply, 1)
		go func() {
			got, err := c.tryDo("POST", c.ready.APIURL+"/v1/integrations", key, body)
			if err != nil {
				got.raw = []byte(err.Error())
			}
			answered <- got
		}()
		return func() {
			t.Helper()
			got := <-answered
			if got.status != h.status || got.code() != h.code {
				t.Fatalf("the request to the plugin %s is answered %d %s, want %d %s", h.name, got.status, got.raw, h.status, h.code)
			}
			if strings.Contains(string(got.raw), secrets[h.name]) {
				t.Errorf("%s: the answer has the secret", h.name)
			}
			c.eventually("the log names the plugin "+h.name, func() bool {
				logs := service.logs.String()
				return hasLine(logs, `"msg":"provider call failed"`, `"provider":"`+h.name+`"`, `"cause":"`+h.cause+`"`) &&
					hasLine(logs, append([]string{`"plugin":"` + h.name + `"`}, h.logTexts...)...)
			})
			checkHealthy("after " + h.name)
		}
	}
	hangingPlugin := hostilePlugins[len(hostilePlugins)-1]
	waitForHanging := startRequest(hangingPlugin)
	c.eventually("the plugin that hangs runs", func() bool { return hasLine(service.logs.String(), `"plugin started"`, `"plugin":"hangs"`) })
	checkHealthy("while a call hangs")
	for _, h := range hostilePlugins[:len(hostilePlugins)-1] {
		startRequest(h)()
	}
	forkingPID := pluginProcessID(t, service.logs.String(), "forks")
	c.eventually("no process of the plugin that forks is left", func() bool { return processesInGroup(t, forkingPID) == 0 })
	waitForHanging()

	if stored := c.get("/v1/integrations"); stored.valueAt("count") != 0.0 {
		t.Errorf("a credential was stored: %s", stored.raw)
	}
	must(t, service.stop())
	for name, secret := range secrets {
		if strings.Contains(service.logs.String(), secret) {
			t.Errorf("the log has the secret that %s got", name)
		}
	}
}

// hostilePluginDir returns a plugin folder with the mail platform and all hostilePlugins.
func (f *serviceFixture) hostilePluginDir() string {
	f.t.Helper()
	dir, rogue := f.t.TempDir(), testserver.Program(f.t, "testdata/rogue")
	var catalog struct {
		Plugins []map[string]string `json:"plugins"`
	}
	add := func(name, file, program string) {
		content, err := os.ReadFile(program)
		must(f.t, err)
		must(f.t, os.Symlink(program, filepath.Join(dir, file)))
		kind, _, _ := strings.Cut(file, "-")
		catalog.Plugins = append(catalog.Plugins, map[string]string{
			"name": name, "kind": kind, "file": file, "version": "1.0.0", "sha256": fmt.Sprintf("%x", sha256.Sum256(content)),
		})
	}
	add(mailPlatform, "mail-microsoft365", filepath.Join(f.build.folder, "plugins", "mail-microsoft365"))
	for _, h := range hostilePlugins {
		add(h.name, "sending-"+h.name, rogue)
	}
	raw, err := json.Marshal(catalog)
	must(f.t, err)
	must(f.t, os.WriteFile(filepath.Join(dir, "catalog.json"), raw, 0o600))
	return dir
}

// hasLine reports whether one line of a log contains all the texts.
func hasLine(logs string, texts ...string) bool {
	for line := range strings.Lines(logs) {
		found := true
		for _, text := range texts {
			found = found && strings.Contains(line, text)
		}
		if found {
			return true
		}
	}
	return false
}

// pluginProcessID returns the id of the first process of a plugin, which it finds in the log.
func pluginProcessID(t *testing.T, logs, plugin string) int {
	t.Helper()
	found := regexp.MustCompile(`"plugin started","plugin":"` + plugin + `".*"pid":(\d+)`).FindStringSubmatch(logs)
	if found == nil {
		t.Fatalf("the log does not contain the process id of %s", plugin)
	}
	pid, err := strconv.Atoi(found[1])
	must(t, err)
	return pid
}

func processesInGroup(t *testing.T, group int) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // after the name of the program
		if fields[0] != "Z" && fields[2] == strconv.Itoa(group) {
			n++
		}
	}
	return n
}
