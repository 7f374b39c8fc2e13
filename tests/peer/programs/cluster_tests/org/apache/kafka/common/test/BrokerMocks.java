package org.apache.kafka.common.test;

import java.util.AbstractMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.mockito.Mockito;
import org.opentest4j.TestAbortedException;

/** Kafka's objects of a broker, as far as its tests of requests use them: each asks the program. */
public class BrokerMocks {
    private final BrokerProgram program;

    public BrokerMocks(BrokerProgram program) {
        this.program = program;
    }

    private static TestAbortedException inside(String what) {
        return new TestAbortedException("reads a broker's inside: " + what);
    }

    public BrokerServer broker() {
        KRaftMetadataCache cache = cache();
        KafkaConfig config = config();
        GroupCoordinator groups = Mockito.mock(GroupCoordinator.class, call -> {
            if (!call.getMethod().getName().equals("groupMetadataTopicConfigs"))
                throw inside("groupCoordinator." + call.getMethod().getName());
            Properties compacted = new Properties();
            compacted.put("cleanup.policy", "compact");
            return compacted;
        });
        return Mockito.mock(BrokerServer.class, call -> switch (call.getMethod().getName()) {
            case "config" -> config;
            case "metadataCache" -> cache;
            case "groupCoordinator" -> groups;
            case "boundPort" -> program.port();
            case "isShutdown" -> !program.runs();
            case "toString", "hashCode", "equals" -> Mockito.RETURNS_DEFAULTS.answer(call);
            default -> throw inside(call.getMethod().getName());
        });
    }

    private KRaftMetadataCache cache() {
        return Mockito.mock(KRaftMetadataCache.class, call -> switch (call.getMethod().getName()) {
            case "numPartitions" -> Optional.ofNullable(program.partitions(call.getArgument(0)));
            case "contains" -> program.partitions(call.getArgument(0)) != null;
            case "hasAliveBroker" -> true;
            case "getAliveBrokerNodes" -> List.of(new Node(0, "localhost", program.port()));
            case "getLeaderAndIsr" -> Optional.of(new LeaderAndIsr(0, List.of(0)));
            case "getTopicId" -> program.topicIds().getOrDefault(call.getArgument(0), Uuid.ZERO_UUID);
            default -> throw inside("metadataCache." + call.getMethod().getName());
        });
    }

    private KafkaConfig config() {
        Properties all = new Properties();
        all.putAll(Map.of("node.id", "0", "process.roles", "broker", "controller.quorum.voters", "9@localhost:1",
            "controller.listener.names", "CONTROLLER", "listeners", "PLAINTEXT://localhost:1",
            "offsets.topic.num.partitions", "5", "offsets.topic.replication.factor", "1",
            "transaction.state.log.num.partitions", "5", "transaction.state.log.replication.factor", "1"));
        program.settings.forEach((key, value) -> {
            // versions that are not stable are not in kbroker
            if (!key.contains("listener") && !key.contains("unstable"))
                all.put(key, value);
        });
        return KafkaConfig.fromProps(all);
    }

    /** No controller to wait for; that of an id knows the ids of topics. */
    public Map<Integer, ControllerServer> controllers() {
        return new AbstractMap<>() {
            @Override
            public Set<Entry<Integer, ControllerServer>> entrySet() {
                return Set.of();
            }

            @Override
            public ControllerServer get(Object id) {
                Controller controller = Mockito.mock(Controller.class, call -> {
                    if (call.getMethod().getName().equals("findAllTopicIds"))
                        return CompletableFuture.completedFuture(program.topicIds());
                    throw inside("controller." + call.getMethod().getName());
                });
                return Mockito.mock(ControllerServer.class, call -> {
                    if (call.getMethod().getName().equals("controller"))
                        return controller;
                    throw inside("controllerServer." + call.getMethod().getName());
                });
            }
        };
    }
}
