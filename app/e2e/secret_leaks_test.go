// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// leakSearch sends generated secrets through a service. Afterwards it searches for them in the
// outputs of the service.
type leakSearch struct {
	*serviceFixture
	client
	*spanReceiver
	process    *process
	cloudflare *cloudflareFake
	dataDir    string
	database   *sql.DB // nil on SQLite, whose database file is in dataDir
	secrets    map[string]string
	outputs    []searchedOutput // searched at the end, when all secrets are known
	zone       string
	tenant     string
}

// searchedOutput is an output of the service, for example a file, a log or a response.
type searchedOutput struct {
	name string
	data []byte
}

// TestNoSecretLeaks sends secrets through a service and searches for them in its outputs. It uses
// SQLite with a client secret, and PostgreSQL with a client certificate.
func TestNoSecretLeaks(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s := newLeakSearch(t)
		s.secrets["client secret"] = s.clientSecret()
		s.run(s.serviceFixture.env(s.dataDir, ""))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		s := newLeakSearch(t)
		s.useCertificate()
		databaseURL := testserver.Database(t)
		parsedURL, err := url.Parse(databaseURL)
		must(t, err)
		s.secrets["database password"], _ = parsedURL.User.Password()
		env := s.serviceFixture.env(s.dataDir, databaseURL)
		s.runCommand(env, "migrate")
		s.runCommand(env, "keyset", "create")
		if s.database, err = sql.Open("pgx", databaseURL); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.database.Close() })
		parsedURL.Host = "127.0.0.1:1"
		serverWithoutDatabase := startProcess(t, s.build, s.serviceFixture.env(s.dataDir, parsedURL.String()), nil, "serve")
		<-serverWithoutDatabase.done
		s.keep("the log of a server without its database", []byte(serverWithoutDatabase.logs.String()))
		s.run(env)
	})
}

// TestSandboxLeaksNoSecret checks that secrets are only in the files in which sandbox and
// simulators keep them.
func TestSandboxLeaksNoSecret(t *testing.T) {
	t.Parallel()
	o := newOnboarding(newRestartingSandbox(t, requirePrograms(t, releaseBuild), nil))
	key := o.ready.APIKey
	o.run(allWriteSteps(o), retrying(o))
	var app object
	must(t, json.Unmarshal([]byte(fileText(t, filepath.Join(o.dataDir, "simulators", "microsoft365", "app.json"))), &app))
	s := &leakSearch{serviceFixture: &serviceFixture{t: t}, dataDir: o.dataDir, secrets: map[string]string{
		"first key": key, "rotated key": o.ready.APIKey, "password": mailboxesBody("x.test").text("account_password"), "client secret": app.text("secret"),
	}}
	s.keepStoredData("of a sandbox")
	s.keep("logs", []byte(o.process.logs.String()))
	s.outputs = slices.DeleteFunc(s.outputs, func(output searchedOutput) bool {
		return output.name == "env of a sandbox" || output.name == "api-key.json of a sandbox" || strings.HasPrefix(output.name, "simulators/")
	})
	if len(s.outputs) < 5 {
		t.Errorf("only %d outputs were kept, want at least 5", len(s.outputs))
	}
	s.search()
}

// newLeakSearch starts the simulated mail platform, DNS and Cloudflare, and the receiver of spans.
// It starts neither the service nor the sending platforms.
func newLeakSearch(t *testing.T) *leakSearch {
	t.Helper()
	return &leakSearch{
		serviceFixture: newServiceFixture(t, requirePrograms(t, releaseBuild)), spanReceiver: newSpanReceiver(t), cloudflare: newCloudflareFake(t, "canary.test"), dataDir: t.TempDir(),
		secrets: map[string]string{}, zone: "canary.test",
	}
}

// useCertificate replaces the client secret with a client certificate.
func (s *leakSearch) useCertificate() {
	s.serviceFixture.t.Helper()
	public, private := testserver.SelfSigned(s.serviceFixture.t)
	s.addSecretLines("certificate's key", private)
	file := filepath.Join(s.serviceFixture.t.TempDir(), "certificate.pem")
	must(s.serviceFixture.t, os.WriteFile(file, append(public, private...), 0o600))
	delete(s.settings, "client_secret_file")
	s.settings["client_certificate_file"] = file
	c := client{t: s.serviceFixture.t}
	c.ready.ControlURL = s.serviceFixture.url + "/_control"
	c.control("POST", "/app", object{"certificate": string(public)})
}

// addSecretLines registers each long line of a PEM file as a secret.
func (s *leakSearch) addSecretLines(name string, text []byte) {
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if !strings.HasPrefix(line, "---") && len(line) > 30 {
			s.secrets[fmt.Sprint(name, " line ", i)] = line
		}
	}
}

// run starts a server, sends it the secrets, stops it and searches.
func (s *leakSearch) run(env []string) {
	s.serviceFixture.t.Helper()
	env = append(append(env, s.cloudflare.env()), s.startSendingPlatforms()...)
	id, key := s.newAccount(env, "owner@example.com", "complete", 0)
	s.secrets["API key"] = key
	s.addDNSConnections(id, env)
	s.process, s.client = s.serve(append(append(env, s.spanReceiver.env()...), "TENANTRY_LOG_LEVEL=debug", "TENANTRY_WEBHOOKS_ALLOW_PRIVATE=true"))
	s.ready.APIKey = key
	s.sendUnknownSecrets()
	s.runConnectFlows()
	s.runOperations()
	s.keepStoredData("after all flows")
	s.keep("metrics", s.do("GET", s.ready.AdminURL+"/metrics", "", nil).raw)
	must(s.client.t, s.process.stop())
	s.keepStoredData("after the stop")
	spans, raw := s.spanReceiver.received(s.client.t)
	s.keep("spans", bytes.Join(raw, nil))
	s.keep("logs", []byte(s.process.logs.String()))
	s.search()
	if len(spans) < 300 || !strings.Contains(s.process.logs.String(), `"msg":"request"`) || len(s.secrets) < 25 {
		s.client.t.Errorf("the search had %d spans and %d secrets, want at least 300 and 25, and requests in the log", len(spans), len(s.secrets))
	}
}

func (s *leakSearch) keep(name string, data []byte) {
	s.outputs = append(s.outputs, searchedOutput{name, data})
}

func (s *leakSearch) search() {
	s.serviceFixture.t.Helper()
	for _, output := range s.outputs {
		if found := findLeaks(output.data, s.secrets); len(found) > 0 {
			s.serviceFixture.t.Errorf("%s contains %v", output.name, found)
		}
	}
}

// keepStoredData keeps every file of the data folder and, on PostgreSQL, every table.
func (s *leakSearch) keepStoredData(when string) {
	s.serviceFixture.t.Helper()
	err := filepath.WalkDir(s.dataDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(s.dataDir, path)
		s.keep(strings.TrimPrefix(name, "sandbox/")+" "+when, raw)
		return err
	})
	must(s.serviceFixture.t, err)
	if s.database != nil {
		s.keepTables(when)
	}
}

func (s *leakSearch) keepTables(when string) {
	s.serviceFixture.t.Helper()
	for _, table := range firstColumn(s.serviceFixture.t, s.database, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'") {
		rows := firstColumn(s.serviceFixture.t, s.database, `SELECT t::text FROM "`+table+`" t`)
		s.keep("table "+table+" "+when, []byte(strings.Join(rows, "\n")))
	}
}

func firstColumn(t *testing.T, db *sql.DB, query string) (values []string) {
	t.Helper()
	rows, err := db.Query(query)
	must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var value string
		must(t, rows.Scan(&value))
		values = append(values, value)
	}
	must(t, rows.Err())
	return values
}

// findLeaks searches data, and the gzip streams in it, for each encoding of the secrets. It returns
// the names of the secrets and encodings found.
func findLeaks(data []byte, secrets map[string]string) (found []string) {
	for name, secret := range secrets {
		for encoding, needle := range encodings(secret) {
			if bytes.Contains(data, needle) {
				found = append(found, name+" "+encoding)
			}
		}
	}
	for offset := bytes.Index(data, gzipMagic); offset >= 0; {
		for _, inside := range findLeaks(gunzip(data[offset:]), secrets) {
			found = append(found, inside+" in gzip")
		}
		next := bytes.Index(data[offset+1:], gzipMagic)
		if next < 0 {
			break
		}
		offset += 1 + next
	}
	return found
}

var gzipMagic = []byte{0x1f, 0x8b, 8}

// gunzip returns the content of a gzip stream, as far as it can be read.
func gunzip(data []byte) []byte {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	reader.Multistream(false)
	content, _ := io.ReadAll(io.LimitReader(reader, 16<<20))
	return content
}

func encodings(secret string) map[string][]byte {
	out := map[string][]byte{
		"as it is": []byte(secret), "as hex": []byte(hex.EncodeToString([]byte(secret))),
		"as upper-case hex": []byte(strings.ToUpper(hex.EncodeToString([]byte(secret)))),
		"in a query":        []byte(url.QueryEscape(secret)), "in a path": []byte(url.PathEscape(secret)),
		"percent-encoded": []byte(percentEncode(secret, "%%%02X")), "percent-encoded in lower case": []byte(percentEncode(secret, "%%%02x")),
		"in HTML": []byte(html.EscapeString(secret)), "quoted": []byte(strings.Trim(strconv.Quote(secret), `"`)),
		"in JSON": jsonText(secret, false), "in JSON with escaped HTML": jsonText(secret, true),
	}
	for offset := range 3 {
		padded := append(make([]byte, offset), secret...)
		for kind, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := encoding.EncodeToString(padded)[[]int{0, 2, 3}[offset]:] // drops the characters that depend on the padding
			if len(padded)%3 != 0 {
				text = text[:len(text)-1] // drops the character that depends on the following data
			}
			out[fmt.Sprintf("as %s at %d", kind, offset)] = []byte(text)
		}
	}
	return out
}

// percentEncode encodes each byte, even a byte that a URL allows.
func percentEncode(secret, format string) string {
	var b strings.Builder
	for _, c := range []byte(secret) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// jsonText returns the secret as it is inside a JSON string.
func jsonText(secret string, escapeHTML bool) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	_ = e.Encode(secret)
	return bytes.Trim(bytes.TrimSpace(b.Bytes()), `"`)
}

// TestPlantedLeaksAreFound checks that findLeaks finds planted secrets, with and without gzip, and
// finds nothing in random data.
func TestPlantedLeaksAreFound(t *testing.T) {
	secret := `Aa7&"<%/+ ` + rand.Text()
	secrets := map[string]string{"password": secret}
	randomData := func(n int) []byte {
		data := make([]byte, n)
		_, _ = rand.Read(data)
		return data
	}
	if found := findLeaks(randomData(1<<16), secrets); len(found) > 0 {
		t.Fatalf("random data contains %v", found)
	}
	planted := map[string]string{
		"clear": secret, "hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "html": html.EscapeString(secret),
		"json": string(jsonText(secret, true)), "plain json": string(jsonText(secret, false)), "quoted": fmt.Sprintf("%q", secret),
	}
	for before := range 4 {
		for after := range 4 {
			text := append(append(randomData(before), secret...), randomData(after)...)
			planted[fmt.Sprintf("base64 %d %d", before, after)] = base64.StdEncoding.EncodeToString(text)
			planted[fmt.Sprintf("base64url %d %d", before, after)] = base64.RawURLEncoding.EncodeToString(text)
		}
	}
	for form, text := range planted {
		around := func(data []byte) []byte { return bytes.Join([][]byte{randomData(100), data, randomData(100)}, nil) }
		if len(findLeaks(around([]byte(text)), secrets)) == 0 {
			t.Errorf("the secret was not found in the form %s", form)
		}
		var packed bytes.Buffer
		gzipWriter := gzip.NewWriter(&packed)
		_, _ = gzipWriter.Write(around([]byte(text)))
		_ = gzipWriter.Close()
		if len(findLeaks(around(packed.Bytes()), secrets)) == 0 {
			t.Errorf("the secret was not found in gzip in the form %s", form)
		}
	}
}
