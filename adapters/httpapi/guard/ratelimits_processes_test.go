// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/core/access"
)

// The environment variables that make the test binary run a server (see TestMain).
const (
	serverFolderEnv = "TENANTRY_TEST_STRICT_FOLDER"
	serverRedisEnv  = "TENANTRY_TEST_STRICT_REDIS"
)

// TestMain runs the tests. With the variable serverFolderEnv it instead runs the server of
// TestStrictBucketIsSharedByProcesses, which starts two such processes.
func TestMain(m *testing.M) {
	if folder := os.Getenv(serverFolderEnv); folder != "" {
		if err := serveStrictBucket(context.Background(), folder, os.Getenv(serverRedisEnv)); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// openSharedStore opens the database that the processes share.
func openSharedStore(ctx context.Context, folder string) (*bunstore.Store, error) {
	return bunstore.Open(ctx, "sqlite://"+filepath.Join(folder, "strict.db"), bunstore.Options{Log: slog.New(slog.DiscardHandler)})
}

// serveStrictBucket runs a server with one write operation, which counts in the strictest bucket.
// It prints the address of the server, and stops when its standard input is closed.
// Limits.MaxProviderOperations is so high that it refuses no request.
func serveStrictBucket(ctx context.Context, folder, redis string) error {
	store, err := openSharedStore(ctx, folder)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	keyset, err := secrets.OpenKeyset(filepath.Join(folder, "keyset.json"), secrets.CreateMissing)
	if err != nil {
		return err
	}
	counters, err := limiter.Open(ctx, limiter.Options{URL: redis, AnswerTimeout: time.Minute, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer func() { _ = counters.Close() }()
	mux := http.NewServeMux()
	api := humago.New(mux, huma.DefaultConfig("strict", "1"))
	huma.Register(api, huma.Operation{
		OperationID: "strict-write", Method: http.MethodPost, Path: "/v1/strict",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavyWrites, Write: true}.Metadata(),
	}, func(context.Context, *struct{}) (*struct{ Body map[string]bool }, error) {
		return &struct{ Body map[string]bool }{map[string]bool{"done": true}}, nil
	})
	handler := guard.New(mux, api.OpenAPI(), guard.Options{
		Keys: &keys.Service{Keys: store, Prefix: "tny", Random: rand.Reader, Now: time.Now}, Log: slog.New(slog.DiscardHandler),
		Idempotency: guard.Idempotency{Keys: store, Sealer: keyset, Fingerprinter: keyset, Now: time.Now, Lease: time.Minute},
		Limits:      guard.Limits{Counters: counters, MaxProviderOperations: 1000, MaxInFlight: 1000},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	server := httpapi.Server("", handler)
	go func() { _ = server.Serve(listener) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return server.Close()
}

// startServerProcess starts a server process. The server process ends when the test ends, or when
// the test process ends.
func startServerProcess(t *testing.T, folder, redis string) (url string) {
	t.Helper()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverFolderEnv+"="+folder, serverRedisEnv+"="+redis)
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := server.Wait(); err != nil {
			t.Error(err)
		}
	})
	if _, err := fmt.Fscanln(stdout, &url); err != nil {
		t.Fatal(err)
	}
	return url
}

// TestStrictBucketIsSharedByProcesses sends 500 concurrent writes of one account to two processes
// with one Redis. The bucket must let exactly 12 pass. The operation exists only in this test.
//
// On a slow machine, requests wait too long for the database, and are answered with 503, or the
// server closes their connection. A 503 that was not counted and a request without an answer are
// repeated with the same Idempotency-Key. A counted 503 counts as passed.
func TestStrictBucketIsSharedByProcesses(t *testing.T) {
	folder := t.TempDir()
	store, err := openSharedStore(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.OpenKeyset(filepath.Join(folder, "keyset.json"), secrets.CreateMissing); err != nil {
		t.Fatal(err)
	}
	account, err := store.CreateAccount(t.Context(), "ann@a.example", "api_starter", 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, text, err := access.NewKey(rand.Reader, "tny", access.Live, account.ID, "test", time.Now())
	if err == nil {
		err = store.AddKey(t.Context(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	redis := testserver.NewRedis(t)
	urls := []string{startServerProcess(t, folder, redis.URL), startServerProcess(t, folder, redis.URL)}

	var countsMutex sync.Mutex
	passed, refused := 0, 0
	var requests sync.WaitGroup
	for i := range 500 {
		requests.Go(func() {
			idempotencyKey := rand.Text()
			status, bucket := http.StatusServiceUnavailable, ""
			for attempt := 1; status == http.StatusServiceUnavailable && bucket == ""; attempt++ {
				if attempt > 1 {
					time.Sleep(200 * time.Millisecond)
				}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, urls[i%2]+"/v1/strict", strings.NewReader("{}"))
				if err != nil {
					t.Error(err)
					return
				}
				request.Header = http.Header{"Authorization": {"Bearer " + text.Reveal()}, "Idempotency-Key": {idempotencyKey}, "Content-Type": {"application/json"}}
				answer, err := http.DefaultClient.Do(request)
				if err != nil && attempt < 50 { // the server closed the connection without an answer
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				_ = answer.Body.Close()
				status, bucket = answer.StatusCode, answer.Header.Get("X-RateLimit-Bucket")
			}
			countsMutex.Lock()
			defer countsMutex.Unlock()
			counted := bucket == string(guard.ProviderHeavyWrites)
			switch {
			case counted && (status == http.StatusOK || status == http.StatusServiceUnavailable):
				passed++
			case counted && status == http.StatusTooManyRequests:
				refused++
			default:
				t.Errorf("a request is answered %d in the bucket %q, want 200, 429 or 503 in the bucket %s", status, bucket, guard.ProviderHeavyWrites)
			}
		})
	}
	requests.Wait()
	if passed != 12 || refused != 488 {
		t.Errorf("%d requests passed and %d were refused, want 12 and 488", passed, refused)
	}
}
