package main

// seeds are what the base has nothing of: a valid value of each volume source, and of
// what says where a pod may run.
const seeds = `
- {ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {accessModes: [ReadWriteOnce], storageClassName: fast, volumeMode: Filesystem, volumeAttributesClassName: gold, selector: {matchLabels: {a: b}}, resources: {requests: {storage: 10Gi}}, dataSource: {apiGroup: example.com, kind: Disk, name: d}, dataSourceRef: {apiGroup: example.com, kind: Disk, name: d}}}}}
- {ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}, dataSourceRef: {kind: PersistentVolumeClaim, name: d, namespace: other}}}}}
- {projected: {sources: [{secret: {name: s, items: [{key: k, path: a, mode: 256}]}}, {configMap: {name: c, items: [{key: k, path: b}]}}, {downwardAPI: {items: [{path: c, fieldRef: {fieldPath: metadata.name}}]}}, {serviceAccountToken: {path: t, expirationSeconds: 600, audience: a}}]}}
- {projected: {sources: [{secret: {name: s, items: [{key: k, path: x}]}}, {configMap: {name: c, items: [{key: k, path: b}]}}, {secret: {name: t, items: [{key: k, path: c}]}}]}}
- {csi: {driver: csi.example.com, nodePublishSecretRef: {name: s}, volumeAttributes: {a: b}}}
- {nfs: {server: nfs.example.com, path: /srv}}
- {iscsi: {targetPortal: 10.0.0.1, iqn: "iqn.2026-11.com.example:disk", lun: 1, chapAuthSession: true, secretRef: {name: s}, initiatorName: "iqn.2026-11.com.example:node"}}
- {iscsi: {targetPortal: 10.0.0.1, iqn: eui.0123456789abcdef}}
- {azureDisk: {diskName: d, diskURI: "https://a.blob.core.windows.net/c/d.vhd", kind: Dedicated, cachingMode: None}}
- {azureDisk: {diskName: d, diskURI: /subscriptions/a, kind: Managed}}
- {fc: {targetWWNs: [a], lun: 1}}
- {fc: {wwids: [a]}}
- {awsElasticBlockStore: {volumeID: v, partition: 1}}
- {azureFile: {secretName: s, shareName: s}}
- {cephfs: {monitors: [m], secretRef: {name: s}}}
- {cinder: {volumeID: v, secretRef: {name: s}}}
- {configMap: {name: c, defaultMode: 256, items: [{key: k, path: a}]}}
- {downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}, {path: b, resourceFieldRef: {containerName: agent, resource: limits.memory, divisor: 1Mi}}]}}
- {emptyDir: {medium: Memory, sizeLimit: 1Gi}}
- {flexVolume: {driver: example.com/d, options: {a: b}, secretRef: {name: s}}}
- {flocker: {datasetName: d}}
- {gcePersistentDisk: {pdName: d, partition: 1}}
- {gitRepo: {repository: r, directory: d}}
- {glusterfs: {endpoints: e, path: p}}
- {hostPath: {path: /srv, type: Directory}}
- {image: {reference: r, pullPolicy: Always}}
- {persistentVolumeClaim: {claimName: c}}
- {photonPersistentDisk: {pdID: d}}
- {portworxVolume: {volumeID: v}}
- {quobyte: {registry: "r:1,s:2", volume: v, tenant: t}}
- {rbd: {monitors: [m], image: i, secretRef: {name: s}}}
- {scaleIO: {gateway: g, system: s, volumeName: v, secretRef: {name: s}}}
- {secret: {secretName: s, defaultMode: 256, items: [{key: k, path: a}]}}
- {storageos: {volumeName: v, volumeNamespace: v, secretRef: {name: s}}}
- {vsphereVolume: {volumePath: p}}
- affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}], matchFields: [{key: metadata.name, operator: In, values: [node]}]}]}
      preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}], matchFields: [{key: metadata.name, operator: NotIn, values: [node]}]}}]
- affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaces: [other], labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: Exists}]}, namespaceSelector: {matchLabels: {a: b}}, matchLabelKeys: [x], mismatchLabelKeys: [z]}]
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [x]}}]
- topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 1, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [x]}]
- schedulingGates: [{name: example.com/a}]
- hostAliases: [{ip: 10.0.0.1, hostnames: [a, b.c]}]
- tolerations: [{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 5}]
- resourceClaims: [{name: a, resourceClaimName: c}, {name: b, resourceClaimTemplateName: d}]
- imagePullSecrets: [{name: a}]
- dnsConfig: {nameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3]}
- resources: {limits: {cpu: 4, memory: 8Gi}, requests: {cpu: 4, memory: 8Gi}}
- initContainers: [{name: i, image: i, restartPolicy: Always, command: [a], env: [{name: A, value: b}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: C, valueFrom: {resourceFieldRef: {containerName: agent, resource: limits.memory, divisor: 1Mi}}}, {name: D, valueFrom: {fileKeyRef: {volumeName: tmp, path: a, key: b, optional: true}}}, {name: E, valueFrom: {configMapKeyRef: {name: a, key: b}}}], envFrom: [{prefix: A_, configMapRef: {name: a}}, {secretRef: {name: b}}], ports: [{name: p, containerPort: 5, protocol: UDP, hostIP: 10.0.0.1, hostPort: 6}], lifecycle: {postStart: {exec: {command: [a]}}, preStop: {httpGet: {path: /a, port: p, host: h, scheme: HTTP, httpHeaders: [{name: X-A, value: b}]}}}, startupProbe: {tcpSocket: {port: 5, host: h}}, livenessProbe: {grpc: {port: 5, service: s}, terminationGracePeriodSeconds: 5}, readinessProbe: {exec: {command: [a]}, successThreshold: 3}, resources: {limits: {example.com/gpu: 1, memory: 1Gi, ephemeral-storage: 1Gi}, requests: {cpu: 100m}}, securityContext: {capabilities: {add: [A], drop: [ALL]}, seLinuxOptions: {level: a}, seccompProfile: {type: RuntimeDefault}, appArmorProfile: {type: RuntimeDefault}, procMount: Default}, volumeMounts: [{name: tmp, mountPath: /x, subPath: a, mountPropagation: None}, {name: home, mountPath: /y, subPathExpr: $(A), readOnly: true}], terminationMessagePolicy: File, workingDir: /w, stdin: true, stdinOnce: true, tty: true}]
- initContainers: [{name: i, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}], restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1, 2]}}]}]
`
