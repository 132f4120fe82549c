// Written by embed/generate. #embed is C23; clang accepts it in every mode of the language.
#include "SQLFiles.h"

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc23-extensions"

static const char roles[] = {
#embed "../roles.sql" suffix(, )
    0};
static const char bootstrap[] = {
#embed "../bootstrap.sql" suffix(, )
    0};
static const char migrations_0001_sync[] = {
#embed "../migrations/0001_sync.sql" suffix(, )
    0};
static const char migrations_0002_care[] = {
#embed "../migrations/0002_care.sql" suffix(, )
    0};
static const char migrations_0003_actions[] = {
#embed "../migrations/0003_actions.sql" suffix(, )
    0};
static const char migrations_0004_resume[] = {
#embed "../migrations/0004_resume.sql" suffix(, )
    0};
static const char migrations_0005_publish[] = {
#embed "../migrations/0005_publish.sql" suffix(, )
    0};
static const char migrations_0006_lineage[] = {
#embed "../migrations/0006_lineage.sql" suffix(, )
    0};
static const char migrations_0007_action_types[] = {
#embed "../migrations/0007_action_types.sql" suffix(, )
    0};
static const char migrations_0008_schedules[] = {
#embed "../migrations/0008_schedules.sql" suffix(, )
    0};
static const char migrations_0009_jobs[] = {
#embed "../migrations/0009_jobs.sql" suffix(, )
    0};
static const char migrations_0010_feedback[] = {
#embed "../migrations/0010_feedback.sql" suffix(, )
    0};
static const char migrations_0011_medications[] = {
#embed "../migrations/0011_medications.sql" suffix(, )
    0};
static const char migrations_0012_changed_by[] = {
#embed "../migrations/0012_changed_by.sql" suffix(, )
    0};
static const char migrations_0013_push[] = {
#embed "../migrations/0013_push.sql" suffix(, )
    0};
static const char migrations_0014_reminders[] = {
#embed "../migrations/0014_reminders.sql" suffix(, )
    0};
static const char migrations_0015_cost[] = {
#embed "../migrations/0015_cost.sql" suffix(, )
    0};
static const char migrations_0016_kept_statistics[] = {
#embed "../migrations/0016_kept_statistics.sql" suffix(, )
    0};
static const char migrations_0017_push_lanes[] = {
#embed "../migrations/0017_push_lanes.sql" suffix(, )
    0};
static const char migrations_0018_reminders[] = {
#embed "../migrations/0018_reminders.sql" suffix(, )
    0};
static const char migrations_0019_push_leases[] = {
#embed "../migrations/0019_push_leases.sql" suffix(, )
    0};
static const char migrations_0020_audit_details[] = {
#embed "../migrations/0020_audit_details.sql" suffix(, )
    0};
static const char migrations_0021_kept_reminders[] = {
#embed "../migrations/0021_kept_reminders.sql" suffix(, )
    0};
static const char migrations_0022_silent_reminders[] = {
#embed "../migrations/0022_silent_reminders.sql" suffix(, )
    0};
static const char migrations_0023_stopped_reminders[] = {
#embed "../migrations/0023_stopped_reminders.sql" suffix(, )
    0};
static const char migrations_0024_ids[] = {
#embed "../migrations/0024_ids.sql" suffix(, )
    0};
static const char functions_09_sync_settle_writers[] = {
#embed "../functions/09_sync_settle_writers.sql" suffix(, )
    0};
static const char functions_10_sync_camel[] = {
#embed "../functions/10_sync_camel.sql" suffix(, )
    0};
static const char functions_11_sync_clock[] = {
#embed "../functions/11_sync_clock.sql" suffix(, )
    0};
static const char functions_12_sync_change[] = {
#embed "../functions/12_sync_change.sql" suffix(, )
    0};
static const char functions_13_care_intent[] = {
#embed "../functions/13_care_intent.sql" suffix(, )
    0};
static const char functions_14_care_audit[] = {
#embed "../functions/14_care_audit.sql" suffix(, )
    0};
static const char functions_14_care_reminder_audit[] = {
#embed "../functions/14_care_reminder_audit.sql" suffix(, )
    0};
static const char functions_19_sync_sealed[] = {
#embed "../functions/19_sync_sealed.sql" suffix(, )
    0};
static const char functions_20_sync_flush[] = {
#embed "../functions/20_sync_flush.sql" suffix(, )
    0};
static const char functions_21_sync_refuse_truncate[] = {
#embed "../functions/21_sync_refuse_truncate.sql" suffix(, )
    0};
static const char functions_26_sync_touch[] = {
#embed "../functions/26_sync_touch.sql" suffix(, )
    0};
static const char functions_28_sync_lookup[] = {
#embed "../functions/28_sync_lookup.sql" suffix(, )
    0};
static const char functions_29_sync_probe[] = {
#embed "../functions/29_sync_probe.sql" suffix(, )
    0};
static const char functions_30_sync_generate_recorder[] = {
#embed "../functions/30_sync_generate_recorder.sql" suffix(, )
    0};
static const char functions_31_sync_generate_builder[] = {
#embed "../functions/31_sync_generate_builder.sql" suffix(, )
    0};
static const char functions_32_sync_generate_drafts[] = {
#embed "../functions/32_sync_generate_drafts.sql" suffix(, )
    0};
static const char functions_33_sync_unpublishable[] = {
#embed "../functions/33_sync_unpublishable.sql" suffix(, )
    0};
static const char functions_34_sync_enroll[] = {
#embed "../functions/34_sync_enroll.sql" suffix(, )
    0};
static const char functions_35_sync_publish_changes[] = {
#embed "../functions/35_sync_publish_changes.sql" suffix(, )
    0};
static const char functions_36_sync_attach[] = {
#embed "../functions/36_sync_attach.sql" suffix(, )
    0};
static const char functions_37_sync_unpublish_changes[] = {
#embed "../functions/37_sync_unpublish_changes.sql" suffix(, )
    0};
static const char functions_38_sync_regenerate[] = {
#embed "../functions/38_sync_regenerate.sql" suffix(, )
    0};
static const char functions_39_sync_check_published[] = {
#embed "../functions/39_sync_check_published.sql" suffix(, )
    0};
static const char functions_40_sync_lineage[] = {
#embed "../functions/40_sync_lineage.sql" suffix(, )
    0};
static const char functions_41_sync_tail[] = {
#embed "../functions/41_sync_tail.sql" suffix(, )
    0};
static const char functions_42_sync_positions[] = {
#embed "../functions/42_sync_positions.sql" suffix(, )
    0};
static const char functions_43_sync_replay[] = {
#embed "../functions/43_sync_replay.sql" suffix(, )
    0};
static const char functions_44_sync_hub_hello[] = {
#embed "../functions/44_sync_hub_hello.sql" suffix(, )
    0};
static const char functions_45_sync_new_epoch[] = {
#embed "../functions/45_sync_new_epoch.sql" suffix(, )
    0};
static const char functions_46_sync_retain[] = {
#embed "../functions/46_sync_retain.sql" suffix(, )
    0};
static const char functions_47_sync_logged_events[] = {
#embed "../functions/47_sync_logged_events.sql" suffix(, )
    0};
static const char functions_47_sync_read_log[] = {
#embed "../functions/47_sync_read_log.sql" suffix(, )
    0};
static const char functions_48_sync_revoke[] = {
#embed "../functions/48_sync_revoke.sql" suffix(, )
    0};
static const char functions_49_sync_bulk[] = {
#embed "../functions/49_sync_bulk.sql" suffix(, )
    0};
static const char functions_50_care_zone[] = {
#embed "../functions/50_care_zone.sql" suffix(, )
    0};
static const char functions_51_care_occurrence_id[] = {
#embed "../functions/51_care_occurrence_id.sql" suffix(, )
    0};
static const char functions_52_care_before_write[] = {
#embed "../functions/52_care_before_write.sql" suffix(, )
    0};
static const char functions_53_care_kept_reminders[] = {
#embed "../functions/53_care_kept_reminders.sql" suffix(, )
    0};
static const char functions_53_care_medication_writes[] = {
#embed "../functions/53_care_medication_writes.sql" suffix(, )
    0};
static const char functions_53_care_next_occurrences[] = {
#embed "../functions/53_care_next_occurrences.sql" suffix(, )
    0};
static const char functions_53_care_reminder_writes[] = {
#embed "../functions/53_care_reminder_writes.sql" suffix(, )
    0};
static const char functions_53_care_silent_reminders[] = {
#embed "../functions/53_care_silent_reminders.sql" suffix(, )
    0};
static const char functions_54_care_count_day[] = {
#embed "../functions/54_care_count_day.sql" suffix(, )
    0};
static const char functions_55_care_occurrence_events[] = {
#embed "../functions/55_care_occurrence_events.sql" suffix(, )
    0};
static const char functions_56_care_reminder_events[] = {
#embed "../functions/56_care_reminder_events.sql" suffix(, )
    0};
static const char functions_57_care_medication_events[] = {
#embed "../functions/57_care_medication_events.sql" suffix(, )
    0};
static const char functions_57_care_reminder_occurrence_events[] = {
#embed "../functions/57_care_reminder_occurrence_events.sql" suffix(, )
    0};
static const char functions_58_care_plan[] = {
#embed "../functions/58_care_plan.sql" suffix(, )
    0};
static const char functions_58_care_plan_triggers[] = {
#embed "../functions/58_care_plan_triggers.sql" suffix(, )
    0};
static const char functions_58_care_reminder_due[] = {
#embed "../functions/58_care_reminder_due.sql" suffix(, )
    0};
static const char functions_59_care_triggers[] = {
#embed "../functions/59_care_triggers.sql" suffix(, )
    0};
static const char functions_60_care_stats[] = {
#embed "../functions/60_care_stats.sql" suffix(, )
    0};
static const char functions_61_care_read[] = {
#embed "../functions/61_care_read.sql" suffix(, )
    0};
static const char functions_62_care_payload[] = {
#embed "../functions/62_care_payload.sql" suffix(, )
    0};
static const char functions_63_care_rule[] = {
#embed "../functions/63_care_rule.sql" suffix(, )
    0};
static const char functions_64_care_conflict[] = {
#embed "../functions/64_care_conflict.sql" suffix(, )
    0};
static const char functions_65_care_memo[] = {
#embed "../functions/65_care_memo.sql" suffix(, )
    0};
static const char functions_66_care_carry[] = {
#embed "../functions/66_care_carry.sql" suffix(, )
    0};
static const char functions_67_care_bulk[] = {
#embed "../functions/67_care_bulk.sql" suffix(, )
    0};
static const char functions_68_care_undo[] = {
#embed "../functions/68_care_undo.sql" suffix(, )
    0};
static const char functions_69_care_resolve[] = {
#embed "../functions/69_care_resolve.sql" suffix(, )
    0};
static const char functions_70_care_act[] = {
#embed "../functions/70_care_act.sql" suffix(, )
    0};
static const char functions_71_care_medication_read[] = {
#embed "../functions/71_care_medication_read.sql" suffix(, )
    0};
static const char functions_71_sync_positions_of[] = {
#embed "../functions/71_sync_positions_of.sql" suffix(, )
    0};
static const char functions_72_care_device_act[] = {
#embed "../functions/72_care_device_act.sql" suffix(, )
    0};
static const char functions_72_care_medication_act[] = {
#embed "../functions/72_care_medication_act.sql" suffix(, )
    0};
static const char functions_72_care_schedule_act[] = {
#embed "../functions/72_care_schedule_act.sql" suffix(, )
    0};
static const char functions_72_care_settings_act[] = {
#embed "../functions/72_care_settings_act.sql" suffix(, )
    0};
static const char functions_72_care_stack_act[] = {
#embed "../functions/72_care_stack_act.sql" suffix(, )
    0};
static const char functions_72_sync_digest[] = {
#embed "../functions/72_sync_digest.sql" suffix(, )
    0};
static const char functions_73_care_reminder_act[] = {
#embed "../functions/73_care_reminder_act.sql" suffix(, )
    0};
static const char functions_73_care_reminder_days[] = {
#embed "../functions/73_care_reminder_days.sql" suffix(, )
    0};
static const char functions_73_care_reminder_merge[] = {
#embed "../functions/73_care_reminder_merge.sql" suffix(, )
    0};
static const char functions_73_care_reminder_payload[] = {
#embed "../functions/73_care_reminder_payload.sql" suffix(, )
    0};
static const char functions_73_care_reminder_resolve[] = {
#embed "../functions/73_care_reminder_resolve.sql" suffix(, )
    0};
static const char functions_73_sync_apply[] = {
#embed "../functions/73_sync_apply.sql" suffix(, )
    0};
static const char functions_74_care_cursor[] = {
#embed "../functions/74_care_cursor.sql" suffix(, )
    0};
static const char functions_74_sync_topics[] = {
#embed "../functions/74_sync_topics.sql" suffix(, )
    0};
static const char functions_75_sync_adherence_day[] = {
#embed "../functions/75_sync_adherence_day.sql" suffix(, )
    0};
static const char functions_76_sync_adherence_month[] = {
#embed "../functions/76_sync_adherence_month.sql" suffix(, )
    0};
static const char functions_77_sync_adherence_occurrence[] = {
#embed "../functions/77_sync_adherence_occurrence.sql" suffix(, )
    0};
static const char functions_78_sync_medications[] = {
#embed "../functions/78_sync_medications.sql" suffix(, )
    0};
static const char functions_78_sync_reminders[] = {
#embed "../functions/78_sync_reminders.sql" suffix(, )
    0};
static const char functions_79_sync_dispatch[] = {
#embed "../functions/79_sync_dispatch.sql" suffix(, )
    0};
static const char functions_80_publish_care[] = {
#embed "../functions/80_publish_care.sql" suffix(, )
    0};
static const char functions_81_care_job_fire_reminders[] = {
#embed "../functions/81_care_job_fire_reminders.sql" suffix(, )
    0};
static const char functions_81_care_job_plan_doses[] = {
#embed "../functions/81_care_job_plan_doses.sql" suffix(, )
    0};
static const char functions_82_care_zone_rules[] = {
#embed "../functions/82_care_zone_rules.sql" suffix(, )
    0};
static const char functions_83_care_miss_doses[] = {
#embed "../functions/83_care_miss_doses.sql" suffix(, )
    0};
static const char functions_84_sync_job[] = {
#embed "../functions/84_sync_job.sql" suffix(, )
    0};
static const char functions_85_sync_adherence_queries[] = {
#embed "../functions/85_sync_adherence_queries.sql" suffix(, )
    0};
static const char functions_86_sync_adherence_export[] = {
#embed "../functions/86_sync_adherence_export.sql" suffix(, )
    0};
static const char functions_87_care_job_spread_products[] = {
#embed "../functions/87_care_job_spread_products.sql" suffix(, )
    0};
static const char functions_88_sync_push[] = {
#embed "../functions/88_sync_push.sql" suffix(, )
    0};
static const char functions_89_sync_feedback[] = {
#embed "../functions/89_sync_feedback.sql" suffix(, )
    0};
static const char functions_90_grants[] = {
#embed "../functions/90_grants.sql" suffix(, )
    0};
static const char demo[] = {
#embed "../demo.sql" suffix(, )
    0};

#pragma clang diagnostic pop

static const struct carillon_sql_file carillon_sql_files[] = {
    {carillon_sql_roles, 0, "roles.sql", roles, sizeof roles - 1},
    {carillon_sql_bootstrap, 0, "bootstrap.sql", bootstrap, sizeof bootstrap - 1},
    {carillon_sql_migration, 1, "0001_sync.sql", migrations_0001_sync, sizeof migrations_0001_sync - 1},
    {carillon_sql_migration, 2, "0002_care.sql", migrations_0002_care, sizeof migrations_0002_care - 1},
    {carillon_sql_migration, 3, "0003_actions.sql", migrations_0003_actions, sizeof migrations_0003_actions - 1},
    {carillon_sql_migration, 4, "0004_resume.sql", migrations_0004_resume, sizeof migrations_0004_resume - 1},
    {carillon_sql_migration, 5, "0005_publish.sql", migrations_0005_publish, sizeof migrations_0005_publish - 1},
    {carillon_sql_migration, 6, "0006_lineage.sql", migrations_0006_lineage, sizeof migrations_0006_lineage - 1},
    {carillon_sql_migration, 7, "0007_action_types.sql", migrations_0007_action_types, sizeof migrations_0007_action_types - 1},
    {carillon_sql_migration, 8, "0008_schedules.sql", migrations_0008_schedules, sizeof migrations_0008_schedules - 1},
    {carillon_sql_migration, 9, "0009_jobs.sql", migrations_0009_jobs, sizeof migrations_0009_jobs - 1},
    {carillon_sql_migration, 10, "0010_feedback.sql", migrations_0010_feedback, sizeof migrations_0010_feedback - 1},
    {carillon_sql_migration, 11, "0011_medications.sql", migrations_0011_medications, sizeof migrations_0011_medications - 1},
    {carillon_sql_migration, 12, "0012_changed_by.sql", migrations_0012_changed_by, sizeof migrations_0012_changed_by - 1},
    {carillon_sql_migration, 13, "0013_push.sql", migrations_0013_push, sizeof migrations_0013_push - 1},
    {carillon_sql_migration, 14, "0014_reminders.sql", migrations_0014_reminders, sizeof migrations_0014_reminders - 1},
    {carillon_sql_migration, 15, "0015_cost.sql", migrations_0015_cost, sizeof migrations_0015_cost - 1},
    {carillon_sql_migration, 16, "0016_kept_statistics.sql", migrations_0016_kept_statistics, sizeof migrations_0016_kept_statistics - 1},
    {carillon_sql_migration, 17, "0017_push_lanes.sql", migrations_0017_push_lanes, sizeof migrations_0017_push_lanes - 1},
    {carillon_sql_migration, 18, "0018_reminders.sql", migrations_0018_reminders, sizeof migrations_0018_reminders - 1},
    {carillon_sql_migration, 19, "0019_push_leases.sql", migrations_0019_push_leases, sizeof migrations_0019_push_leases - 1},
    {carillon_sql_migration, 20, "0020_audit_details.sql", migrations_0020_audit_details, sizeof migrations_0020_audit_details - 1},
    {carillon_sql_migration, 21, "0021_kept_reminders.sql", migrations_0021_kept_reminders, sizeof migrations_0021_kept_reminders - 1},
    {carillon_sql_migration, 22, "0022_silent_reminders.sql", migrations_0022_silent_reminders, sizeof migrations_0022_silent_reminders - 1},
    {carillon_sql_migration, 23, "0023_stopped_reminders.sql", migrations_0023_stopped_reminders, sizeof migrations_0023_stopped_reminders - 1},
    {carillon_sql_migration, 24, "0024_ids.sql", migrations_0024_ids, sizeof migrations_0024_ids - 1},
    {carillon_sql_function, 0, "09_sync_settle_writers.sql", functions_09_sync_settle_writers, sizeof functions_09_sync_settle_writers - 1},
    {carillon_sql_function, 0, "10_sync_camel.sql", functions_10_sync_camel, sizeof functions_10_sync_camel - 1},
    {carillon_sql_function, 0, "11_sync_clock.sql", functions_11_sync_clock, sizeof functions_11_sync_clock - 1},
    {carillon_sql_function, 0, "12_sync_change.sql", functions_12_sync_change, sizeof functions_12_sync_change - 1},
    {carillon_sql_function, 0, "13_care_intent.sql", functions_13_care_intent, sizeof functions_13_care_intent - 1},
    {carillon_sql_function, 0, "14_care_audit.sql", functions_14_care_audit, sizeof functions_14_care_audit - 1},
    {carillon_sql_function, 0, "14_care_reminder_audit.sql", functions_14_care_reminder_audit, sizeof functions_14_care_reminder_audit - 1},
    {carillon_sql_function, 0, "19_sync_sealed.sql", functions_19_sync_sealed, sizeof functions_19_sync_sealed - 1},
    {carillon_sql_function, 0, "20_sync_flush.sql", functions_20_sync_flush, sizeof functions_20_sync_flush - 1},
    {carillon_sql_function, 0, "21_sync_refuse_truncate.sql", functions_21_sync_refuse_truncate, sizeof functions_21_sync_refuse_truncate - 1},
    {carillon_sql_function, 0, "26_sync_touch.sql", functions_26_sync_touch, sizeof functions_26_sync_touch - 1},
    {carillon_sql_function, 0, "28_sync_lookup.sql", functions_28_sync_lookup, sizeof functions_28_sync_lookup - 1},
    {carillon_sql_function, 0, "29_sync_probe.sql", functions_29_sync_probe, sizeof functions_29_sync_probe - 1},
    {carillon_sql_function, 0, "30_sync_generate_recorder.sql", functions_30_sync_generate_recorder, sizeof functions_30_sync_generate_recorder - 1},
    {carillon_sql_function, 0, "31_sync_generate_builder.sql", functions_31_sync_generate_builder, sizeof functions_31_sync_generate_builder - 1},
    {carillon_sql_function, 0, "32_sync_generate_drafts.sql", functions_32_sync_generate_drafts, sizeof functions_32_sync_generate_drafts - 1},
    {carillon_sql_function, 0, "33_sync_unpublishable.sql", functions_33_sync_unpublishable, sizeof functions_33_sync_unpublishable - 1},
    {carillon_sql_function, 0, "34_sync_enroll.sql", functions_34_sync_enroll, sizeof functions_34_sync_enroll - 1},
    {carillon_sql_function, 0, "35_sync_publish_changes.sql", functions_35_sync_publish_changes, sizeof functions_35_sync_publish_changes - 1},
    {carillon_sql_function, 0, "36_sync_attach.sql", functions_36_sync_attach, sizeof functions_36_sync_attach - 1},
    {carillon_sql_function, 0, "37_sync_unpublish_changes.sql", functions_37_sync_unpublish_changes, sizeof functions_37_sync_unpublish_changes - 1},
    {carillon_sql_function, 0, "38_sync_regenerate.sql", functions_38_sync_regenerate, sizeof functions_38_sync_regenerate - 1},
    {carillon_sql_function, 0, "39_sync_check_published.sql", functions_39_sync_check_published, sizeof functions_39_sync_check_published - 1},
    {carillon_sql_function, 0, "40_sync_lineage.sql", functions_40_sync_lineage, sizeof functions_40_sync_lineage - 1},
    {carillon_sql_function, 0, "41_sync_tail.sql", functions_41_sync_tail, sizeof functions_41_sync_tail - 1},
    {carillon_sql_function, 0, "42_sync_positions.sql", functions_42_sync_positions, sizeof functions_42_sync_positions - 1},
    {carillon_sql_function, 0, "43_sync_replay.sql", functions_43_sync_replay, sizeof functions_43_sync_replay - 1},
    {carillon_sql_function, 0, "44_sync_hub_hello.sql", functions_44_sync_hub_hello, sizeof functions_44_sync_hub_hello - 1},
    {carillon_sql_function, 0, "45_sync_new_epoch.sql", functions_45_sync_new_epoch, sizeof functions_45_sync_new_epoch - 1},
    {carillon_sql_function, 0, "46_sync_retain.sql", functions_46_sync_retain, sizeof functions_46_sync_retain - 1},
    {carillon_sql_function, 0, "47_sync_logged_events.sql", functions_47_sync_logged_events, sizeof functions_47_sync_logged_events - 1},
    {carillon_sql_function, 0, "47_sync_read_log.sql", functions_47_sync_read_log, sizeof functions_47_sync_read_log - 1},
    {carillon_sql_function, 0, "48_sync_revoke.sql", functions_48_sync_revoke, sizeof functions_48_sync_revoke - 1},
    {carillon_sql_function, 0, "49_sync_bulk.sql", functions_49_sync_bulk, sizeof functions_49_sync_bulk - 1},
    {carillon_sql_function, 0, "50_care_zone.sql", functions_50_care_zone, sizeof functions_50_care_zone - 1},
    {carillon_sql_function, 0, "51_care_occurrence_id.sql", functions_51_care_occurrence_id, sizeof functions_51_care_occurrence_id - 1},
    {carillon_sql_function, 0, "52_care_before_write.sql", functions_52_care_before_write, sizeof functions_52_care_before_write - 1},
    {carillon_sql_function, 0, "53_care_kept_reminders.sql", functions_53_care_kept_reminders, sizeof functions_53_care_kept_reminders - 1},
    {carillon_sql_function, 0, "53_care_medication_writes.sql", functions_53_care_medication_writes, sizeof functions_53_care_medication_writes - 1},
    {carillon_sql_function, 0, "53_care_next_occurrences.sql", functions_53_care_next_occurrences, sizeof functions_53_care_next_occurrences - 1},
    {carillon_sql_function, 0, "53_care_reminder_writes.sql", functions_53_care_reminder_writes, sizeof functions_53_care_reminder_writes - 1},
    {carillon_sql_function, 0, "53_care_silent_reminders.sql", functions_53_care_silent_reminders, sizeof functions_53_care_silent_reminders - 1},
    {carillon_sql_function, 0, "54_care_count_day.sql", functions_54_care_count_day, sizeof functions_54_care_count_day - 1},
    {carillon_sql_function, 0, "55_care_occurrence_events.sql", functions_55_care_occurrence_events, sizeof functions_55_care_occurrence_events - 1},
    {carillon_sql_function, 0, "56_care_reminder_events.sql", functions_56_care_reminder_events, sizeof functions_56_care_reminder_events - 1},
    {carillon_sql_function, 0, "57_care_medication_events.sql", functions_57_care_medication_events, sizeof functions_57_care_medication_events - 1},
    {carillon_sql_function, 0, "57_care_reminder_occurrence_events.sql", functions_57_care_reminder_occurrence_events, sizeof functions_57_care_reminder_occurrence_events - 1},
    {carillon_sql_function, 0, "58_care_plan.sql", functions_58_care_plan, sizeof functions_58_care_plan - 1},
    {carillon_sql_function, 0, "58_care_plan_triggers.sql", functions_58_care_plan_triggers, sizeof functions_58_care_plan_triggers - 1},
    {carillon_sql_function, 0, "58_care_reminder_due.sql", functions_58_care_reminder_due, sizeof functions_58_care_reminder_due - 1},
    {carillon_sql_function, 0, "59_care_triggers.sql", functions_59_care_triggers, sizeof functions_59_care_triggers - 1},
    {carillon_sql_function, 0, "60_care_stats.sql", functions_60_care_stats, sizeof functions_60_care_stats - 1},
    {carillon_sql_function, 0, "61_care_read.sql", functions_61_care_read, sizeof functions_61_care_read - 1},
    {carillon_sql_function, 0, "62_care_payload.sql", functions_62_care_payload, sizeof functions_62_care_payload - 1},
    {carillon_sql_function, 0, "63_care_rule.sql", functions_63_care_rule, sizeof functions_63_care_rule - 1},
    {carillon_sql_function, 0, "64_care_conflict.sql", functions_64_care_conflict, sizeof functions_64_care_conflict - 1},
    {carillon_sql_function, 0, "65_care_memo.sql", functions_65_care_memo, sizeof functions_65_care_memo - 1},
    {carillon_sql_function, 0, "66_care_carry.sql", functions_66_care_carry, sizeof functions_66_care_carry - 1},
    {carillon_sql_function, 0, "67_care_bulk.sql", functions_67_care_bulk, sizeof functions_67_care_bulk - 1},
    {carillon_sql_function, 0, "68_care_undo.sql", functions_68_care_undo, sizeof functions_68_care_undo - 1},
    {carillon_sql_function, 0, "69_care_resolve.sql", functions_69_care_resolve, sizeof functions_69_care_resolve - 1},
    {carillon_sql_function, 0, "70_care_act.sql", functions_70_care_act, sizeof functions_70_care_act - 1},
    {carillon_sql_function, 0, "71_care_medication_read.sql", functions_71_care_medication_read, sizeof functions_71_care_medication_read - 1},
    {carillon_sql_function, 0, "71_sync_positions_of.sql", functions_71_sync_positions_of, sizeof functions_71_sync_positions_of - 1},
    {carillon_sql_function, 0, "72_care_device_act.sql", functions_72_care_device_act, sizeof functions_72_care_device_act - 1},
    {carillon_sql_function, 0, "72_care_medication_act.sql", functions_72_care_medication_act, sizeof functions_72_care_medication_act - 1},
    {carillon_sql_function, 0, "72_care_schedule_act.sql", functions_72_care_schedule_act, sizeof functions_72_care_schedule_act - 1},
    {carillon_sql_function, 0, "72_care_settings_act.sql", functions_72_care_settings_act, sizeof functions_72_care_settings_act - 1},
    {carillon_sql_function, 0, "72_care_stack_act.sql", functions_72_care_stack_act, sizeof functions_72_care_stack_act - 1},
    {carillon_sql_function, 0, "72_sync_digest.sql", functions_72_sync_digest, sizeof functions_72_sync_digest - 1},
    {carillon_sql_function, 0, "73_care_reminder_act.sql", functions_73_care_reminder_act, sizeof functions_73_care_reminder_act - 1},
    {carillon_sql_function, 0, "73_care_reminder_days.sql", functions_73_care_reminder_days, sizeof functions_73_care_reminder_days - 1},
    {carillon_sql_function, 0, "73_care_reminder_merge.sql", functions_73_care_reminder_merge, sizeof functions_73_care_reminder_merge - 1},
    {carillon_sql_function, 0, "73_care_reminder_payload.sql", functions_73_care_reminder_payload, sizeof functions_73_care_reminder_payload - 1},
    {carillon_sql_function, 0, "73_care_reminder_resolve.sql", functions_73_care_reminder_resolve, sizeof functions_73_care_reminder_resolve - 1},
    {carillon_sql_function, 0, "73_sync_apply.sql", functions_73_sync_apply, sizeof functions_73_sync_apply - 1},
    {carillon_sql_function, 0, "74_care_cursor.sql", functions_74_care_cursor, sizeof functions_74_care_cursor - 1},
    {carillon_sql_function, 0, "74_sync_topics.sql", functions_74_sync_topics, sizeof functions_74_sync_topics - 1},
    {carillon_sql_function, 0, "75_sync_adherence_day.sql", functions_75_sync_adherence_day, sizeof functions_75_sync_adherence_day - 1},
    {carillon_sql_function, 0, "76_sync_adherence_month.sql", functions_76_sync_adherence_month, sizeof functions_76_sync_adherence_month - 1},
    {carillon_sql_function, 0, "77_sync_adherence_occurrence.sql", functions_77_sync_adherence_occurrence, sizeof functions_77_sync_adherence_occurrence - 1},
    {carillon_sql_function, 0, "78_sync_medications.sql", functions_78_sync_medications, sizeof functions_78_sync_medications - 1},
    {carillon_sql_function, 0, "78_sync_reminders.sql", functions_78_sync_reminders, sizeof functions_78_sync_reminders - 1},
    {carillon_sql_function, 0, "79_sync_dispatch.sql", functions_79_sync_dispatch, sizeof functions_79_sync_dispatch - 1},
    {carillon_sql_function, 0, "80_publish_care.sql", functions_80_publish_care, sizeof functions_80_publish_care - 1},
    {carillon_sql_function, 0, "81_care_job_fire_reminders.sql", functions_81_care_job_fire_reminders, sizeof functions_81_care_job_fire_reminders - 1},
    {carillon_sql_function, 0, "81_care_job_plan_doses.sql", functions_81_care_job_plan_doses, sizeof functions_81_care_job_plan_doses - 1},
    {carillon_sql_function, 0, "82_care_zone_rules.sql", functions_82_care_zone_rules, sizeof functions_82_care_zone_rules - 1},
    {carillon_sql_function, 0, "83_care_miss_doses.sql", functions_83_care_miss_doses, sizeof functions_83_care_miss_doses - 1},
    {carillon_sql_function, 0, "84_sync_job.sql", functions_84_sync_job, sizeof functions_84_sync_job - 1},
    {carillon_sql_function, 0, "85_sync_adherence_queries.sql", functions_85_sync_adherence_queries, sizeof functions_85_sync_adherence_queries - 1},
    {carillon_sql_function, 0, "86_sync_adherence_export.sql", functions_86_sync_adherence_export, sizeof functions_86_sync_adherence_export - 1},
    {carillon_sql_function, 0, "87_care_job_spread_products.sql", functions_87_care_job_spread_products, sizeof functions_87_care_job_spread_products - 1},
    {carillon_sql_function, 0, "88_sync_push.sql", functions_88_sync_push, sizeof functions_88_sync_push - 1},
    {carillon_sql_function, 0, "89_sync_feedback.sql", functions_89_sync_feedback, sizeof functions_89_sync_feedback - 1},
    {carillon_sql_function, 0, "90_grants.sql", functions_90_grants, sizeof functions_90_grants - 1},
    {carillon_sql_demo, 0, "demo.sql", demo, sizeof demo - 1},
};

size_t carillon_sql_file_count(void) { return sizeof carillon_sql_files / sizeof carillon_sql_files[0]; }

const struct carillon_sql_file *carillon_sql_file_at(size_t index) {
    return index < carillon_sql_file_count() ? &carillon_sql_files[index] : NULL;
}
