// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenantry/tenantry/adapters/testserver"
)

func (f doctorFixture) resolver() string {
	for _, variable := range f.service.extraEnv {
		if address, ok := strings.CutPrefix(variable, "TENANTRY_DNS_RESOLVERS="); ok {
			return address
		}
	}
	return ""
}

// writeTempFile writes a new file with this mode and returns its path.
func writeTempFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, []byte(text), mode))
	must(t, os.Chmod(path, mode)) // independent of the umask
	return path
}

func copyTempFile(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	return writeTempFile(t, fileText(t, path), mode)
}

// tamperedPlugins returns a plugin folder in which one file differs from its catalog entry.
func tamperedPlugins(t *testing.T) string {
	t.Helper()
	const file = "mail-microsoft365"
	dir := testserver.PluginsWithout(t, file)
	must(t, os.WriteFile(filepath.Join(dir, file), []byte("#!/bin/sh\nexit 0\n"), 0o755))
	return dir
}

// pluginsWithoutInterpreter returns a folder of plugins in which the Cloudflare plugin is a script
// whose interpreter does not exist. The catalog has the checksum of the script.
func pluginsWithoutInterpreter(t *testing.T) string {
	t.Helper()
	const file, script = "dns-cloudflare", "#!/nonexistent/interpreter\n"
	dir := testserver.PluginsWithout(t, file)
	must(t, os.WriteFile(filepath.Join(dir, file), []byte(script), 0o755))
	catalog := filepath.Join(dir, "catalog.json")
	content, err := os.ReadFile(catalog)
	must(t, err)
	must(t, os.Remove(catalog)) // a link to the bundled catalog
	sum := regexp.MustCompile(`("file": *"` + file + `",\s*"sha256": *")\w+`)
	if !sum.Match(content) {
		t.Fatalf("the catalog has no checksum of %s: %s", file, content)
	}
	content = sum.ReplaceAll(content, fmt.Appendf(nil, "${1}%x", sha256.Sum256([]byte(script))))
	must(t, os.WriteFile(catalog, content, 0o600))
	return dir
}

// certificateKeys generates, once, the two private keys that all certificate files use.
var certificateKeys = sync.OnceValues(func() ([2]*rsa.PrivateKey, error) {
	var keys [2]*rsa.PrivateKey
	var err error
	for i := range keys {
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			break
		}
	}
	return keys, err
})

// certificateFile writes a certificate and a private key to one file. The key belongs to the
// certificate only if keyMatches. from and until are relative to now.
func certificateFile(t *testing.T, from, until time.Duration, keyMatches bool) string {
	t.Helper()
	keys, err := certificateKeys()
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tenantry"},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, keys[0].Public(), keys[0])
	must(t, err)
	key := keys[0]
	if !keyMatches {
		key = keys[1]
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})...)
	return writeTempFile(t, string(text), 0o600)
}

// makeReadableByAll lets every user read the file, and returns its path.
func makeReadableByAll(t *testing.T, path string) string {
	t.Helper()
	must(t, os.Chmod(path, 0o644))
	return path
}

// serveTCP serves each connection in a goroutine until the test ends. It returns the address.
func serveTCP(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

// silentServer starts a server that accepts connections and never answers. It returns its URL.
func silentServer(t *testing.T) string {
	return "http://" + serveTCP(t, func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	})
}

// redisDouble starts a server that answers PING like Redis, and refuses HELLO as old versions of
// Redis do. It returns its URL.
func redisDouble(t *testing.T) string {
	return "redis://" + serveTCP(t, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		lines := bufio.NewScanner(conn)
		for lines.Scan() { // the command PING is the lines *1, $4 and ping
			switch word := strings.ToLower(lines.Text()); {
			case word == "ping":
				_, _ = io.WriteString(conn, "+PONG\r\n")
			case word == "hello":
				_, _ = io.WriteString(conn, "-ERR unknown command 'HELLO'\r\n")
			}
		}
	})
}

// execPostgres runs a statement on a PostgreSQL database directly.
func execPostgres(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
