// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// allowedDependencies lists the third-party packages that the SDK may depend on. Every plugin gets
// all dependencies of the SDK, so a framework of the host or a vendor's client must not be among
// them.
var allowedDependencies = []string{
	"github.com/cenkalti/backoff/", "github.com/cespare/xxhash/", "github.com/fatih/color", "github.com/felixge/httpsnoop",
	"github.com/go-logr/", "github.com/golang/protobuf", "github.com/google/uuid", "github.com/grpc-ecosystem/grpc-gateway/",
	"github.com/hashicorp/go-hclog", "github.com/hashicorp/go-plugin", "github.com/hashicorp/yamux",
	"github.com/mattn/go-colorable", "github.com/mattn/go-isatty", "github.com/oklog/run",
	"go.opentelemetry.io/", "golang.org/x/", "google.golang.org/",
}

// hostOrPlugin matches the folders of the host and of plugins.
var hostOrPlugin = regexp.MustCompile(`^(app|adapters|plugins/(mail|dns|sending)-)`)

func TestSDKDependenciesAreListed(t *testing.T) {
	const module = "github.com/tenantry/tenantry/"
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	ownPackages := 0
	for pkg := range strings.FieldsSeq(string(out)) {
		firstElement, _, _ := strings.Cut(pkg, "/")
		folder, inModule := strings.CutPrefix(pkg, module)
		switch {
		case !strings.Contains(firstElement, "."): // standard library
		case inModule:
			ownPackages++
			if hostOrPlugin.MatchString(folder) {
				t.Errorf("the SDK depends on %s, a package of the host or of a plugin", pkg)
			}
		case !isAllowed(pkg):
			t.Errorf("the SDK depends on %s, which is not on the list", pkg)
		}
	}
	if ownPackages < 5 {
		t.Fatalf("go list names only %d packages of this repository, want at least 5: the list is not complete", ownPackages)
	}
}

func isAllowed(pkg string) bool {
	for _, prefix := range allowedDependencies {
		if strings.HasPrefix(pkg+"/", strings.TrimSuffix(prefix, "/")+"/") {
			return true
		}
	}
	return false
}
