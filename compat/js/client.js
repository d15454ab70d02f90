// @kubernetes/client-node, against the server that KUBECONFIG names.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as k8s from '@kubernetes/client-node';

const space = 'javascript';
const patience = 30_000;

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const definitions = config.makeApiClient(k8s.ApiextensionsV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

const say = (text) => console.log(`   ${text}`);

async function eventually(what, holds) {
  const deadline = Date.now() + patience;
  while (!(await holds())) {
    assert(Date.now() < deadline, `within ${patience} ms it did not come true that ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function refused(code, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.code, code);
    return true;
  });
}

const configMap = (name, data = {}) => ({ metadata: { name }, data });
const create = (name, data) => core.createNamespacedConfigMap({ namespace: space, body: configMap(name, data) });

async function writes() {
  say('create, read, replace, conflict, patch, delete');
  await create('thing', { k: '1' });
  await refused(409, create('thing'));
  const fresh = await core.readNamespacedConfigMap({ name: 'thing', namespace: space });
  const stale = structuredClone({ metadata: { ...fresh.metadata, creationTimestamp: undefined }, data: { k: 'stale' } });
  fresh.data = { k: '2' };
  const written = await core.replaceNamespacedConfigMap({ name: 'thing', namespace: space, body: fresh });
  assert.equal(written.data.k, '2');
  await refused(409, core.replaceNamespacedConfigMap({ name: 'thing', namespace: space, body: stale }));
  const body = [{ op: 'replace', path: '/data/k', value: '3' }];
  const patched = await core.patchNamespacedConfigMap({ name: 'thing', namespace: space, body });
  assert.equal(patched.data.k, '3');
  const merged = await core.patchNamespacedConfigMap(
    { name: 'thing', namespace: space, body: { data: { l: '4' } } },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.StrategicMergePatch),
  );
  assert.deepEqual(merged.data, { k: '3', l: '4' });
  const applied = await objects.patch(
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied', namespace: space }, data: { a: 'b' } },
    undefined, undefined, 'javascript', true, k8s.PatchStrategy.ServerSideApply,
  );
  assert.equal(applied.metadata.managedFields[0].operation, 'Apply');
  await core.deleteNamespacedConfigMap({ name: 'thing', namespace: space });
  await refused(404, core.readNamespacedConfigMap({ name: 'thing', namespace: space }));
}

async function watches() {
  say('watch');
  const watcher = new k8s.Watch(config);
  const path = `/api/v1/namespaces/${space}/configmaps`;
  const { metadata } = await core.listNamespacedConfigMap({ namespace: space });
  const seen = [];
  let ended;
  const watching = await watcher.watch(
    path,
    { resourceVersion: metadata.resourceVersion, allowWatchBookmarks: true },
    (type, object) => seen.push(`${type} ${object.metadata.name ?? ''}`),
    (error) => { ended = error ?? 'without an error'; },
  );
  await create('watched');
  await core.deleteNamespacedConfigMap({ name: 'watched', namespace: space });
  await eventually('all is seen', () => seen.includes('DELETED watched'));
  assert.deepEqual(seen.filter((line) => !line.startsWith('BOOKMARK')), ['ADDED watched', 'DELETED watched']);
  watching.abort();
  await eventually('the watch ends', () => ended);

  say('a watch of the past: 410');
  const now = (await core.listNamespacedConfigMap({ namespace: space })).metadata.resourceVersion;
  execFileSync(process.env.ETCDCTL, ['--endpoints', process.env.ETCD, 'compact', now]);
  let refusal;
  await watcher.watch(
    path,
    { resourceVersion: metadata.resourceVersion },
    (type, object) => { refusal = `${type} ${object.code} ${object.reason}`; },
    () => {},
  );
  await eventually('it is told', () => refusal);
  assert.equal(refusal, 'ERROR 410 Expired');
}

async function informers() {
  say('informer');
  const told = [];
  const path = `/api/v1/namespaces/${space}/configmaps`;
  const informer = k8s.makeInformer(config, path, () => core.listNamespacedConfigMap({ namespace: space }));
  for (const verb of ['add', 'update', 'delete']) {
    informer.on(verb, (object) => told.push(`${verb} ${object.metadata.name}`));
  }
  informer.on('error', (error) => told.push(`error ${error}`));
  await informer.start();
  await create('informed');
  await eventually('it is told', () => told.includes('add informed'));
  assert.equal(informer.get('informed', space).metadata.name, 'informed');
  await core.patchNamespacedConfigMap({ name: 'informed', namespace: space, body: [{ op: 'add', path: '/data', value: { k: '1' } }] });
  await eventually('the change is told', () => told.includes('update informed'));
  await core.deleteNamespacedConfigMap({ name: 'informed', namespace: space });
  await eventually('the end is told', () => told.includes('delete informed'));
  assert.deepEqual(told.filter((line) => line.startsWith('error')), []);
  await informer.stop();
}

async function kinds() {
  say('custom resources, deployments');
  const schema = { openAPIV3Schema: { type: 'object', x_kubernetes_preserve_unknown_fields: true } };
  await definitions.createCustomResourceDefinition({
    body: {
      metadata: { name: 'gadgets.compat.example.com' },
      spec: {
        group: 'compat.example.com', scope: 'Namespaced',
        names: { plural: 'gadgets', singular: 'gadget', kind: 'Gadget' },
        versions: [{ name: 'v1', served: true, storage: true, schema, subresources: { status: {} } }],
      },
    },
  });
  await eventually('it is established', async () => {
    const read = await definitions.readCustomResourceDefinition({ name: 'gadgets.compat.example.com' });
    return read.status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True');
  });
  const where = { group: 'compat.example.com', version: 'v1', namespace: space, plural: 'gadgets' };
  const body = { apiVersion: 'compat.example.com/v1', kind: 'Gadget', metadata: { name: 'one' }, spec: { size: 1 } };
  await custom.createNamespacedCustomObject({ ...where, body });
  const list = await custom.listNamespacedCustomObject(where);
  assert.deepEqual(list.items.map(({ spec }) => spec.size), [1]);

  const labels = { app: 'web' };
  const template = { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'nginx' }] } };
  const spec = { replicas: 2, selector: { matchLabels: labels }, template };
  const made = await apps.createNamespacedDeployment({ namespace: space, body: { metadata: { name: 'web' }, spec } });
  assert(made.metadata.creationTimestamp instanceof Date);
  const scale = await apps.readNamespacedDeploymentScale({ name: 'web', namespace: space });
  assert.equal(scale.spec.replicas, 2);
}

const version = await config.makeApiClient(k8s.VersionApi).getCode();
say(`client-node finds ${version.gitVersion}`);
await core.createNamespace({ body: { metadata: { name: space } } });
await writes();
await watches();
await informers();
await kinds();
await core.deleteNamespace({ name: space });
