// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

func TestHelmChartRenders(t *testing.T) {
	t.Parallel()
	least, err := renderChart(t, chartFolder, minimalValues())
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds(least); got != "Deployment PodDisruptionBudget Service ServiceAccount" {
		t.Errorf("by default: %s", got)
	}
	single, err := renderChart(t, chartFolder, minimalValues(), object{"replicas": 1})
	if err != nil || strings.Contains(kinds(single), "PodDisruptionBudget") {
		t.Errorf("one replica could never be moved: %s (%v)", kinds(single), err)
	}
	all, err := renderChart(t, chartFolder, allValues())
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds(all); got != "Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount ServiceMonitor" {
		t.Errorf("with everything: %s", got)
	}
	pod := objectOfKind(t, all, "Deployment").at("spec.template.spec").(map[string]any)
	checkPod(t, pod)
	if policy := fmt.Sprint(objectOfKind(t, all, "NetworkPolicy").at("spec.egress")); !strings.Contains(policy, "port:6379") {
		t.Errorf("Redis is out of reach: %s", policy)
	}
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range object(pod).objects(list) {
			checkContainer(t, c)
		}
	}
}

// checkPod compares ports, probes and times with those of the code.
func checkPod(t *testing.T, pod object) {
	t.Helper()
	checkValues(t, pod, object{
		"automountServiceAccountToken": false, "securityContext.runAsNonRoot": true, "securityContext.runAsUser": 65532,
		"securityContext.seccompProfile.type": "RuntimeDefault",
	})
	c := pod.objects("containers")[0]
	grace, _ := pod["terminationGracePeriodSeconds"].(float64)
	if spare := time.Duration(grace)*time.Second - defaultDrainTime(t); spare < 10*time.Second {
		t.Errorf("after the drain %s are left of the grace period", spare)
	}
	ports := map[string]float64{}
	for _, p := range c.objects("ports") {
		ports[p.text("name")], _ = p["containerPort"].(float64)
	}
	if ports["http"] != 8080 || ports["admin"] != 9090 {
		t.Errorf("ports %v", ports)
	}
	admin := serve(t, testserver.Program(t, "release/tenantry"), []string{"TENANTRY_DATA_DIR=" + t.TempDir()}).text("admin")
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		path, _ := c.at(probe + ".httpGet.path").(string)
		if status, _ := get(t, admin+path, ""); status != http.StatusOK || c.at(probe+".httpGet.port") != "admin" {
			t.Errorf("%s requests port %v, path %q, which answers %d", probe, c.at(probe+".httpGet.port"), path, status)
		}
	}
}

var (
	pinnedImage   = regexp.MustCompile(`^[a-z0-9./-]+:[0-9][A-Za-z0-9._-]*$`)
	secretPattern = regexp.MustCompile(`(?i)password|secret|token|://[^/]*:[^/]*@|PRIVATE KEY`)
)

// checkContainer checks that variables are settings, that secrets are references, that commands
// exist, and that privileges are dropped.
func checkContainer(t *testing.T, c object) {
	t.Helper()
	checkValues(t, c, object{
		"securityContext.readOnlyRootFilesystem": true, "securityContext.allowPrivilegeEscalation": false, "securityContext.capabilities.drop": "[ALL]",
	})
	if !pinnedImage.MatchString(c.text("image")) {
		t.Errorf("image %s is not pinned by a tag", c.text("image"))
	}
	for _, v := range c.objects("env") {
		name, value := v.text("name"), v.text("value")
		if strings.HasPrefix(name, "TENANTRY_") {
			if key, _ := settings.FromVariable(name, value); key == "" {
				t.Errorf("%s is not a setting", name)
			}
		}
		byReference := map[string]string{"TENANTRY_DATABASE_URL": "tenantry-database", "TENANTRY_REDIS_URL": "tenantry-redis"}[name]
		if secretPattern.MatchString(value) || byReference != "" && v.at("valueFrom.secretKeyRef.name") != byReference {
			t.Errorf("%s contains a secret in clear text", name)
		}
	}
	mounted := map[string]bool{}
	for _, m := range c.objects("volumeMounts") {
		mounted[m.text("mountPath")] = true
	}
	if !mounted["/tmp"] || !mounted["/etc/tenantry/keyset"] || !mounted["/etc/tenantry/microsoft365"] {
		t.Errorf("%s mounts %v", c.text("name"), mounted)
	}
	args, _ := c["args"].([]any)
	if cmd, _, err := command.Root().Find([]string{fmt.Sprint(args[0])}); err != nil || cmd.Name() != args[0] {
		t.Errorf("%s runs %v, which is not a command", c.text("name"), args)
	}
}

// TestHelmChartHidesTheAdminListener checks that a Service with a cluster IP exposes only the API
// port.
func TestHelmChartHidesTheAdminListener(t *testing.T) {
	t.Parallel()
	objects, err := renderChart(t, chartFolder, allValues())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.text("kind") != "Service" {
			continue
		}
		spec := object(o["spec"].(map[string]any))
		for _, p := range spec.objects("ports") {
			if p["targetPort"] != "http" && spec["clusterIP"] != "None" {
				t.Errorf("a Service shows %v", p)
			}
		}
	}
	monitor := objectOfKind(t, objects, "ServiceMonitor")
	if got := fmt.Sprint(monitor.at("spec.endpoints")); got != "[map[interval:30s path:/metrics port:admin]]" {
		t.Errorf("the monitor reads %s", got)
	}
}

// TestHelmChartRefusesInvalidValues checks that the schema of the values refuses errors, and that a
// field which Kubernetes does not have is reported.
func TestHelmChartRefusesInvalidValues(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]object{
		"nothing is set":        nil,
		"plain HTTP":            {"publicURL": "http://api.tenantry.example"},
		"a path":                {"publicURL": "https://api.tenantry.example/"},
		"no database":           {"database": object{"existingSecret": ""}},
		"no certificate":        {"microsoft365": object{"clientID": "5f1c2b7e-0000-4c1d-9a2b-111122223333"}},
		"latest":                {"image": object{"tag": "latest"}},
		"a secret as a setting": {"settings": object{"database_url": "postgres://u:p@h/d"}},
		"another":               {"settings": object{"redis_url": "redis://:p@h/0"}},
		"a secret in telemetry": {"telemetry": object{"OTEL_EXPORTER_OTLP_HEADERS": "k=v"}},
		"misspelt":              {"replicaCount": 3},
	} {
		values := []object{minimalValues(), wrong}
		if wrong == nil {
			values = nil
		}
		if _, err := renderChart(t, chartFolder, values...); err == nil {
			t.Errorf("accepted: %s", name)
		}
	}
	planted := t.TempDir()
	if err := os.CopyFS(planted, os.DirFS(chartFolder)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(planted, "templates", "deployment.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(raw), "  replicas:", "  replica:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := renderChart(t, planted, minimalValues()); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a misspelt field: %v", err)
	}
}

const chartFolder = "helm/tenantry"

// renderChart checks and renders a chart with these values. The program of .ci/chart does this with
// the code of Helm and Kubernetes.
func renderChart(t *testing.T, folder string, values ...object) ([]object, error) {
	t.Helper()
	args := []string{folder}
	for i, v := range values {
		raw, err := json.Marshal(v) // JSON is valid YAML
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

func minimalValues() object {
	return object{
		"publicURL": "https://api.tenantry.example",
		"database":  object{"existingSecret": "tenantry-database"},
		"keyset":    object{"existingSecret": "tenantry-keyset"},
	}
}

func allValues() object {
	v := minimalValues()
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

func objectOfKind(t *testing.T, objects []object, name string) object {
	t.Helper()
	for _, o := range objects {
		if o.text("kind") == name {
			return o
		}
	}
	t.Fatalf("no %s is rendered", name)
	return nil
}
