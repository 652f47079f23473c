// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
)

func TestOperatorManagesTheKeyset(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	file := filepath.Join(dataDir, "keyset.json")
	env := []string{"TENANTRY_DATA_DIR=" + dataDir}
	runTenantry(t, env, "keyset", "list").checkFailure(t, cli.ExitRefused)
	runTenantry(t, env, "keyset", "rotate").checkFailure(t, cli.ExitRefused)
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	created := runTenantry(t, env, "keyset", "create", "-o", "json").mustJSON(t)
	checkMembers(t, "keyset", created, "keyset_file primary_key_id keys")
	checkMembers(t, "key", created.objects("keys")[0], "key_id status")
	originalKeyset := fileText(t, file)
	runTenantry(t, env, "keyset", "create").checkFailure(t, cli.ExitRefused)
	if fileText(t, file) != originalKeyset {
		t.Fatal("the keyset was overwritten")
	}
	staged := runTenantry(t, env, "keyset", "rotate", "--stage", "-o", "json").mustJSON(t)
	checkValues(t, staged, object{"primary_key_id": created["primary_key_id"]})
	runTenantry(t, env, "keyset", "rotate", "--stage").checkFailure(t, cli.ExitRefused)
	rotated := runTenantry(t, env, "keyset", "rotate", "-o", "json").mustJSON(t)
	keys := rotated.objects("keys")
	if len(keys) != 2 || keys[0].text("status") != "old" || keys[1].text("status") != "primary" ||
		rotated.text("primary_key_id") != staged.objects("keys")[1].text("key_id") {
		t.Errorf("the rotated keyset is %v, want an old key and the staged key as primary", rotated)
	}
	table := runTenantry(t, env, "keyset", "list")
	if table.code != 0 || !strings.Contains(table.stdout, "primary") || strings.Contains(table.stdout, "typeUrl") {
		t.Errorf("keyset list fails, lacks the primary key or shows key material: %s%s", table.stdout, table.stderr)
	}
	var actions []string
	for _, e := range runTenantry(t, env, "audit", "list", "-o", "json").mustJSON(t).objects("events") {
		actions = append(actions, e.text("action"))
	}
	if got := strings.Join(actions, " "); got != "keyset.rotate keyset.rotate keyset.create migrate" {
		t.Errorf("the audited actions are %s, want two rotations, the creation and the migration, newest first", got)
	}
}

// TestKeysetRotatesWhileServing checks that secrets encrypted with the old key can be decrypted
// after a rotation, and that new secrets are soon encrypted with the new key.
func TestKeysetRotatesWhileServing(t *testing.T) {
	t.Parallel()
	fixture, dataDir := newServiceFixture(t, requirePrograms(t, releaseBuild)), t.TempDir()
	env := fixture.env(dataDir, "")
	id, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	_, server := fixture.serve(env)
	c := caller{client: server, id: id, email: "ann@example.com", key: key}
	beforeRotation, afterRotation := accountTenant{caller: c}, accountTenant{caller: c}
	beforeRotation.guid, beforeRotation.admin = fixture.newTenant(server)
	afterRotation.guid, afterRotation.admin = fixture.newTenant(server)
	beginConnect := func(tenant accountTenant) (*browser, string) {
		b := newBrowser(t)
		return b, b.open(b.answerConsent(c.get("/v1/tenants/connect-url").text("connect_url"), tenant.admin, "accept")).location
	}
	finishConnect := func(tenant accountTenant, b *browser, address string) {
		confirmation := b.open(b.signIn(address, tenant.admin).location)
		if result := b.submit(confirmation, url.Values{"decision": {"connect"}}); result.status != http.StatusOK {
			t.Errorf("the confirmation is answered %d %s, want 200", result.status, result.text)
		}
	}
	earlyBrowser, earlySignInURL := beginConnect(beforeRotation)
	newKeyID := fixture.runCommand(env, "keyset", "rotate").text("primary_key_id")
	var lateBrowser *browser
	var lateSignInURL string
	server.eventually("a secret is sealed with the new key", func() bool {
		lateBrowser, lateSignInURL = beginConnect(afterRotation)
		return isSealedWith(t, dataDir, newKeyID)
	})
	finishConnect(beforeRotation, earlyBrowser, earlySignInURL)
	finishConnect(afterRotation, lateBrowser, lateSignInURL)
}

// isSealedWith reports whether a stored secret is encrypted with this key. An encrypted value
// begins with the byte 1 and the id of its key.
func isSealedWith(t *testing.T, dataDir, key string) bool {
	t.Helper()
	id, err := strconv.ParseUint(key, 10, 32)
	must(t, err)
	prefix := []byte{1, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dataDir, "tenantry.db"))
	must(t, err)
	defer func() { _ = db.Close() }()
	var found bool
	err = db.QueryRowContext(t.Context(), "SELECT EXISTS (SELECT 1 FROM connect_flows WHERE substr(verifier, 1, 5) = ?)", prefix).Scan(&found)
	must(t, err)
	return found
}

// newConnectedService starts a server with an account and a connected tenant.
func newConnectedService(t *testing.T, fixture *serviceFixture, extraEnv ...string) (*process, accountTenant) {
	t.Helper()
	env := append(fixture.env(t.TempDir(), ""), extraEnv...)
	_, key := fixture.newAccount(env, "owner@example.com", "complete", 0)
	p, c := fixture.serve(env)
	c.ready.APIKey = key
	guid, admin := fixture.newTenant(c)
	newAdministrator(t, admin).connect(c, key)
	return p, accountTenant{caller: caller{c, "", "owner@example.com", key}, guid: guid}
}

// replaceFile replaces a file atomically by a rename.
func replaceFile(t *testing.T, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path+".new", content, 0o600))
	must(t, os.Rename(path+".new", path))
}

// lastAssertionThumbprint returns the certificate thumbprint of the last client assertion in a
// token request.
func (f *serviceFixture) lastAssertionThumbprint() (thumbprint string) {
	for _, q := range f.recordedRequests() {
		form, err := url.ParseQuery(string(q.body))
		if err != nil || !strings.HasSuffix(q.path, "/oauth2/v2.0/token") || form.Get("client_assertion") == "" {
			continue
		}
		header, _, _ := strings.Cut(form.Get("client_assertion"), ".")
		raw, _ := base64.RawURLEncoding.DecodeString(header)
		var assertionHeader struct {
			Sum string `json:"x5t#S256"`
		}
		_ = json.Unmarshal(raw, &assertionHeader)
		thumbprint = assertionHeader.Sum
	}
	return thumbprint
}

// thumbprint returns the SHA-256 thumbprint of a certificate, base64url-encoded.
func thumbprint(public []byte) string {
	block, _ := pem.Decode(public)
	sum := sha256.Sum256(block.Bytes)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// TestReplacedCertificateIsReloaded checks that the next token is requested with the new
// certificate. If the file is incomplete or missing, the earlier certificate stays in use. The
// metrics then show the expiry of the certificate in use, and that its file is unusable.
func TestReplacedCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	file := filepath.Join(t.TempDir(), "certificate.pem")
	fixture.settings["client_certificate_file"] = file
	newRegisteredCertificate := func() (public, withKey []byte) {
		public, private := testserver.SelfSigned(t)
		client{t: t, ready: sandbox.Ready{ControlURL: fixture.url + "/_control"}}.control("POST", "/app", object{"certificate": string(public)})
		return public, append(append([]byte{}, public...), private...)
	}
	firstCertificate, withKey := newRegisteredCertificate()
	replaceFile(t, file, withKey)
	p, tenant := newConnectedService(t, fixture)
	checkUnusable := func(want string) {
		t.Helper()
		tenant.checkCredentialMetrics(`{credential="client_certificate_file",provider="microsoft365"}`, want)
	}
	checkUnusable("0")
	tenant.mustSync()
	if got := fixture.lastAssertionThumbprint(); got != thumbprint(firstCertificate) {
		t.Errorf("the first token was requested with the certificate %q, want the first", got)
	}
	secondCertificate, withKey := newRegisteredCertificate()
	replaceFile(t, file, withKey)
	tenant.mustSync()
	if got := fixture.lastAssertionThumbprint(); got != thumbprint(secondCertificate) {
		t.Errorf("after the file was replaced a token was requested with the certificate %q, want the second", got)
	}
	thirdCertificate, withKey := newRegisteredCertificate()
	must(t, os.WriteFile(file, withKey[:len(withKey)/2], 0o600))
	checkUnusable("1") // before a call has read the broken file
	tenant.mustSync()
	tenant.mustSync()
	must(t, os.Remove(file))
	tenant.mustSync()
	checkUnusable("1")
	if got := fixture.lastAssertionThumbprint(); got != thumbprint(secondCertificate) {
		t.Errorf("with a broken file a token was requested with the certificate %q, want the second", got)
	}
	replaceFile(t, file, withKey)
	checkUnusable("0")
	tenant.mustSync()
	if got := fixture.lastAssertionThumbprint(); got != thumbprint(thirdCertificate) {
		t.Errorf("after the file was fixed a token was requested with the certificate %q, want the third", got)
	}
	logs := p.logs.String()
	if n := strings.Count(logs, "its earlier content stays in use"); n != 2 {
		t.Errorf("%d log lines are about failed reloads, want 2: of the incomplete and of the missing file", n)
	}
	if bytes.Contains([]byte(logs), withKey[:len(withKey)/2][:200]) || strings.Contains(logs, "PRIVATE KEY") {
		t.Error("the log contains the certificate file")
	}
}

// checkCredentialMetrics checks that /metrics shows when a credential expires. It also checks that
// the gauge of an unusable file has the value unusable, "1" or "0".
func (c client) checkCredentialMetrics(labels, unusable string) {
	c.t.Helper()
	metrics := c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw
	for _, want := range []string{"tenantry_credential_expiry_timestamp_seconds" + labels + " 1." /* as in 1.8e+09 */, "tenantry_credential_file_unusable" + labels + " " + unusable + "\n"} {
		if !bytes.Contains(metrics, []byte(want)) {
			c.t.Errorf("the metrics lack %q", want)
		}
	}
}

// TestReplacedClientSecretIsReloaded expires the old secret at the platform. The service uses the
// new secret as soon as it is in the file. If the file becomes empty, the new secret stays in use.
func TestReplacedClientSecretIsReloaded(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	_, tenant := newConnectedService(t, fixture)
	tenant.mustSync()
	tenant.control("POST", "/app", object{"expire_secret": true})
	var app struct{ Secret string }
	if err := json.Unmarshal([]byte(fileText(t, filepath.Join(fixture.platformDir, "app.json"))), &app); err != nil || app.Secret == "" {
		t.Fatalf("the simulator's application has no secret: %v", err)
	}
	replaceFile(t, fixture.settings["client_secret_file"], []byte(app.Secret+"\n"))
	tenant.mustSync()
	must(t, os.Truncate(fixture.settings["client_secret_file"], 0))
	tenant.mustSync()
}

func TestKeyRotationReplacesTheKey(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"live", "trial"} {
		t.Run(form, func(t *testing.T) {
			c := sharedSandbox(t).newAccount(object{"key_form": form})
			if !strings.HasPrefix(c.key, "tny_"+form+"_") {
				t.Fatalf("the key does not have the form %s", form)
			}
			path := "/api-key/rotate?user_email="
			c.expect("POST", "/api-key/rotate", nil, 400, "invalid_request")
			c.expect("POST", path+"a&user_email=b", nil, 400, "invalid_request")
			c.expect("POST", path+"stranger@e2e.example", nil, 403, "access_denied")
			c.expect("POST", path+url.QueryEscape(sharedSandbox(t).email), nil, 403, "access_denied")

			got := c.sendRaw("POST", path+url.QueryEscape(strings.ToUpper(c.email)), "", map[string]string{"Idempotency-Key": ""})
			checkMembers(t, "rotate", got.object, "status api_key key_hint rotated_at")
			newKey := got.text("api_key")
			if got.text("status") != "rotated" || !regexp.MustCompile(`^tny_(live|trial)_[0-9a-f]{48}$`).MatchString(newKey) ||
				newKey == c.key || !strings.HasSuffix(newKey, got.text("key_hint")) || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("the rotation is answered %d with the headers %v, want a new key and no-store", got.status, got.header)
			}
			c.expect("GET", "/v1/tenants", nil, 401, "invalid_api_key")
			c.expect("POST", path+url.QueryEscape(c.email), nil, 401, "invalid_api_key")
			c.key = newKey
			c.get("/v1/tenants")
		})
	}
}
