// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/csv"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// matrixBuckets returns the rate-limit bucket of each operation with a rate-limit row in the
// matrix.
func matrixBuckets(t *testing.T) map[string]string {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(fileText(t, "testdata/authz-matrix.csv"))).ReadAll()
	must(t, err)
	bucketColumn, buckets := slices.Index(lines[0], "rate_bucket"), map[string]string{}
	for _, line := range lines[1:] {
		if slices.Contains(line, rateLimitExceeded) {
			bucket, _, _ := strings.Cut(line[bucketColumn], "_or_write_default")
			if bucket == "provider_heavy_integration_write" {
				bucket = "provider_heavy_writes" // the published name
			}
			buckets[line[slices.Index(lines[0], "method")]+" "+line[slices.Index(lines[0], "path")]] = bucket
		}
	}
	return buckets
}

// limitsOn turns on the rate limits, which the tests turn off by default.
const limitsOn = "TENANTRY_LIMITS=on"

// TestEveryRateLimitIsEnforced checks the rate-limit rows of the matrix. If the bucket of an
// operation is empty, the operation answers 429 and calls no provider.
func TestEveryRateLimitIsEnforced(t *testing.T) {
	t.Parallel()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), []string{limitsOn}, "--no-seed")
	c := seededAccount(t, ready).newAccount(nil)
	tenant := c.newConnectedTenant(nil)
	bucketRequests := map[string]func() reply{
		"provider_heavy": func() reply {
			return tenant.do("POST", tenant.ready.APIURL+tenant.path("/domains"), tenant.key, object{"domain": 1})
		},
		"provider_heavy_writes": func() reply {
			return tenant.do("POST", tenant.ready.APIURL+"/v1/integrations", tenant.key, object{"provider": 1})
		},
		"expensive": func() reply {
			return tenant.do("GET", tenant.ready.APIURL+tenant.domainPath("unknown.example", "/dkim-status"), tenant.key, nil)
		},
		"read":  func() reply { return tenant.do("GET", tenant.ready.APIURL+"/v1/tenants", tenant.key, nil) },
		"write": func() reply { return tenant.do("POST", tenant.ready.APIURL+"/v1/keys", tenant.key, object{}) },
	}
	// Buckets refill while the test runs, so all are emptied again before each request that must be
	// refused.
	retryUntilRefused := func(subject string, ask func() reply) (got reply) {
		t.Helper()
		tenant.eventually(subject+" is refused", func() bool {
			for bucket, take := range bucketRequests {
				for remaining := ""; remaining != "0"; {
					taken := take()
					if bucketName := taken.header.Get("X-RateLimit-Bucket"); bucketName != bucket {
						t.Fatalf("a request with the answer %d counts in the bucket %q, want %q", taken.status, bucketName, bucket)
					}
					remaining = taken.header.Get("X-RateLimit-Remaining")
				}
			}
			got = ask()
			return got.status == http.StatusTooManyRequests
		})
		return got
	}
	before := fmt.Sprint(providerCalls(tenant.client))

	document, err := publishedDocument()
	must(t, err)
	buckets := matrixBuckets(t)
	maps.Copy(buckets, bucketsOutsideMatrix)
	ids := map[string]string{"tenant_id": tenant.guid, "domain_name": "example.com", "domain_id": noSuchID, "mailbox_id": noSuchID, "key_id": noSuchID, "webhook_id": noSuchID, "delivery_id": noSuchID}
	for _, op := range document.operations {
		name := op.method + " " + op.path
		bucket, listed := buckets[name]
		if !listed && name != "POST /api-key/rotate" { // the matrix has no rate-limit row for this operation
			t.Errorf("the matrix does not say in which bucket %s counts", name)
		}
		got := retryUntilRefused(name, func() reply { return tenant.do(op.method, tenant.ready.APIURL+fillPath(op.path, ids), tenant.key, nil) })
		if got.code() != rateLimitExceeded {
			t.Errorf("%s: got %d %s, want %s", name, got.status, got.raw, rateLimitExceeded)
		}
		if bucketName := got.header.Get("X-RateLimit-Bucket"); listed && bucketName != bucket {
			t.Errorf("%s counts in the bucket %q, want %q", name, bucketName, bucket)
		}
		if wait, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || wait < 1 || wait > 600 {
			t.Errorf("%s: Retry-After is %q, want 1 to 600", name, got.header.Get("Retry-After"))
		}
	}
	if after := fmt.Sprint(providerCalls(tenant.client)); after != before {
		t.Errorf("a provider was called: the counters are %s, want %s as before", after, before)
	}
	counts := parseMetrics(tenant.do("GET", tenant.ready.AdminURL+"/metrics", "", nil).raw)
	if refusingBuckets := slices.Sorted(slices.Values(counts["tenantry_ratelimit_refused_total"]["bucket"])); !slices.Equal(refusingBuckets, []string{"expensive", "provider_heavy", "provider_heavy_writes", "read", "write"}) {
		t.Errorf("refusals are counted for the buckets %q, want all buckets", refusingBuckets)
	}
}

var fallbackSample = regexp.MustCompile(`(?m)^tenantry_ratelimit_fallback(?:\{.*\})? (\S+)$`)

// slowRedis gives Redis a minute for each answer, because a busy machine is slow. Tests that stop
// Redis do not wait that long, because a stopped Redis refuses connections at once.
const slowRedis = "TENANTRY_REDIS_TIMEOUT=1m"

// TestReplicasShareRateLimits checks that two servers with one Redis together allow the requests of
// one limit. Without Redis each server counts alone, including the requests that it allowed before,
// and shows this in a metric. No response is 5xx, and when Redis returns, both servers share the
// limit again.
func TestReplicasShareRateLimits(t *testing.T) {
	t.Parallel()
	redis, database := testserver.NewRedis(t), testserver.Database(t)
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := append(fixture.env(t.TempDir(), database), limitsOn, "TENANTRY_REDIS_URL="+redis.URL, slowRedis)
	fixture.runCommand(env, "migrate")
	_, key := fixture.newAccount(env, "owner@example.com", "complete", 1)
	var servers [2]client
	var processes [2]*process
	for i := range servers {
		processes[i], servers[i] = fixture.serve(env)
	}
	// These requests count in the bucket provider_heavy_writes, which allows 12 in 10 minutes. On a
	// busy machine the test can take longer than the minute of the bucket expensive.
	sendRequests := func(n int) (passed int) {
		t.Helper()
		for i := range n {
			c := servers[i%2]
			switch got := c.do("POST", c.ready.APIURL+"/v1/integrations", key, object{"provider": 1}); got.status {
			case 400:
				passed++
			case 429:
			default:
				t.Fatalf("a request is answered %d %s, want 400 or 429", got.status, got.raw)
			}
		}
		return passed
	}
	fallbackValues := func() (values []string) {
		for _, c := range servers {
			for _, sample := range fallbackSample.FindAllSubmatch(c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw, -1) {
				values = append(values, string(sample[1]))
			}
		}
		return values
	}
	if n := sendRequests(8); n != 8 {
		t.Fatalf("%d of 8 requests passed, want all", n)
	}
	if got := fmt.Sprint(fallbackValues()); got != "[0 0]" {
		t.Errorf("with Redis the fallback metrics are %s, want 0 at both servers", got)
	}
	redis.Stop()
	if n := sendRequests(24); n != 16 {
		t.Errorf("%d of 24 requests passed, want 16: each server has allowed 4 requests and can allow 8 more", n)
	}
	if got := fmt.Sprint(fallbackValues()); got != "[1 1]" {
		t.Errorf("without Redis the fallback metrics are %s, want 1 at both servers", got)
	}
	redis.Start(t)
	servers[0].eventually("both servers count in Redis again", func() bool { return fmt.Sprint(fallbackValues()) == "[0 0]" })
	if n := sendRequests(10); n != 0 {
		t.Errorf("%d requests passed, want none, because each server has counted 12 requests", n)
	}
	for _, p := range processes {
		for _, line := range []string{"Redis does not answer", "Redis answers"} {
			if n := strings.Count(p.logs.String(), line); n != 1 {
				t.Errorf("the log says %d times %q, want once", n, line)
			}
		}
	}
}
