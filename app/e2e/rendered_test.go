// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

const chartFolder = "../../deploy/helm/tenantry"

// rendered lints and renders a chart with these values, by Helm's and Kubernetes'
// own code in the program of .ci/chart.
func rendered(t *testing.T, folder string, values ...object) ([]object, error) {
	t.Helper()
	args := []string{folder}
	for i, v := range values {
		raw, err := json.Marshal(v) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	cmd := exec.Command(testserver.Program(t, "chart"), args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &errs)
	}
	var objects []object
	return objects, json.Unmarshal(out, &objects)
}

func leastValues() object {
	return object{
		"publicURL": "https://api.tenantry.example",
		"database":  object{"existingSecret": "tenantry-database"},
		"keyset":    object{"existingSecret": "tenantry-keyset"},
	}
}

func allValues() object {
	v := leastValues()
	v["microsoft365"] = object{"clientID": "5f1c2b7e-0000-4c1d-9a2b-111122223333", "existingSecret": "tenantry-microsoft365", "settings": object{"home_tenant": "example.onmicrosoft.com"}}
	v["redis"] = object{"existingSecret": "tenantry-redis"}
	v["settings"] = object{"log_level": "debug", "require_smtp_auth": false}
	v["telemetry"] = object{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
	v["telemetrySecret"] = "tenantry-telemetry"
	v["serviceMonitor"] = object{"enabled": true}
	v["networkPolicy"] = object{"enabled": true, "monitoring": []object{{"namespaceSelector": object{}}}}
	return v
}

func kinds(objects []object) string {
	var all []string
	for _, o := range objects {
		all = append(all, o.text("kind"))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func kind(t *testing.T, objects []object, name string) object {
	t.Helper()
	for _, o := range objects {
		if o.text("kind") == name {
			return o
		}
	}
	t.Fatalf("no %s is rendered", name)
	return nil
}
