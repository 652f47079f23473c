// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"os/exec"
	"strings"
	"testing"
)

// carried is all that a plugin gets from outside with the SDK. A framework of
// the host or a vendor's client would be carried by every plugin.
var carried = []string{
	"github.com/cenkalti/backoff/", "github.com/cespare/xxhash/", "github.com/fatih/color", "github.com/felixge/httpsnoop",
	"github.com/go-logr/", "github.com/golang/protobuf", "github.com/google/uuid", "github.com/grpc-ecosystem/grpc-gateway/",
	"github.com/hashicorp/go-hclog", "github.com/hashicorp/go-plugin", "github.com/hashicorp/yamux",
	"github.com/mattn/go-colorable", "github.com/mattn/go-isatty", "github.com/oklog/run",
	"go.opentelemetry.io/", "golang.org/x/", "google.golang.org/",
}

func TestSDKIsLight(t *testing.T) {
	const module = "github.com/tenantry/tenantry/"
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for pkg := range strings.FieldsSeq(string(out)) {
		first, _, _ := strings.Cut(pkg, "/")
		ours, mine := strings.CutPrefix(pkg, module)
		switch {
		case !strings.Contains(first, "."): // standard library
		case mine:
			seen++
			if strings.HasPrefix(ours, "app") || strings.HasPrefix(ours, "adapters") || strings.HasPrefix(ours, "plugins/mail-") {
				t.Errorf("the SDK depends on %s", pkg)
			}
		case !listed(pkg):
			t.Errorf("the SDK depends on %s, which is not on the list", pkg)
		}
	}
	if seen < 5 {
		t.Fatalf("only %d packages of our own seen; the list is not what it should be", seen)
	}
}

func listed(pkg string) bool {
	for _, prefix := range carried {
		if strings.HasPrefix(pkg+"/", strings.TrimSuffix(prefix, "/")+"/") {
			return true
		}
	}
	return false
}
