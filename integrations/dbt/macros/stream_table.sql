{#- A model that is a stream table: it is created once, follows its sources from then on, and is changed
    in place when its query or its options change. -#}
{% materialization stream_table, adapter='postgres' %}
  {%- set target_relation = api.Relation.create(
        database=this.database, schema=this.schema, identifier=this.identifier, type='table') -%}
  {%- set existing = load_cached_relation(this) -%}
  {#- dbt's own default, ignore, is the first of these: a query decides which columns there are. -#}
  {%- set on_schema_change = config.get('on_schema_change', 'ignore') -%}
  {%- set grant_config = config.get('grants') -%}
  {%- set name = dbt_pgtrickle.name_of(target_relation) -%}

  {%- if on_schema_change not in ['ignore', 'append_new_columns', 'sync_all_columns', 'fail'] -%}
    {{ exceptions.raise_compiler_error(
        "on_schema_change of a stream table is append_new_columns, sync_all_columns or fail, not "
        ~ on_schema_change) }}
  {%- endif -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {%- if config.get('contract').enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif -%}

  {%- set there = dbt_pgtrickle.is_stream_table(target_relation) -%}
  {%- if there and should_full_refresh() -%}
    {% do dbt_pgtrickle.call('drop_stream_table', {'name': name}) %}
    {%- set there = false -%}
  {%- elif existing is not none and not there -%}
    {#- A table or view of this name, from another materialization. -#}
    {% do adapter.drop_relation(existing) %}
  {%- endif -%}

  {%- if there and on_schema_change == 'fail' -%}
    {% do dbt_pgtrickle.check_columns(target_relation, sql) %}
  {%- endif -%}
  {%- if not there -%}
    {% do dbt_pgtrickle.call('create_stream_table', dbt_pgtrickle.arguments_for('create_stream_table', name, sql)) %}
    {%- set alter_only = dbt_pgtrickle.arguments_for('alter_stream_table', name, none,
          without=dbt_pgtrickle.options_of('create_stream_table')) -%}
    {%- if alter_only | length > 2 -%}
      {% do dbt_pgtrickle.call('alter_stream_table', alter_only) %}
    {%- endif -%}
  {%- else -%}
    {%- set changes = dbt_pgtrickle.arguments_for('alter_stream_table', name, sql) -%}
    {%- if on_schema_change == 'sync_all_columns' -%}
      {% do changes.update({'allow_breaking': true}) %}
    {%- endif -%}
    {% do dbt_pgtrickle.call('alter_stream_table', changes) %}
  {%- endif -%}

  {#- What it reads may have been built anew by this run: tests that follow are to see that. -#}
  {% call statement('main') -%}
    select 1 as refreshed
  {%- endcall %}
  {%- if config.get('initialize', true) -%}
    {% do dbt_pgtrickle.call('refresh_stream_table', {'name': name}) %}
  {%- endif -%}

  {% do dbt_pgtrickle.make_indexes(target_relation) %}
  {% do apply_grants(target_relation, grant_config, should_revoke=there) %}
  {% do persist_docs(target_relation, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{#- The arguments of a procedure that a model configures. -#}
{% macro arguments_for(procedure, name, query, without=[]) %}
  {% set found = {'name': name, 'query': query} %}
  {% for option in dbt_pgtrickle.options_of(procedure) if option not in without %}
    {% if config.get(option) is not none %}
      {% do found.update({option: config.get(option)}) %}
    {% endif %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}


{#- Stop if another query has other columns. -#}
{% macro check_columns(relation, sql) %}
  {% set present = adapter.get_columns_in_relation(relation) | map(attribute='name') | list %}
  {% set wanted = get_column_schema_from_query(sql) | map(attribute='name') | list %}
  {% if present != wanted %}
    {{ exceptions.raise_compiler_error(
        relation ~ " has the columns " ~ present | join(', ') ~ ", and its query has "
        ~ wanted | join(', ') ~ ": on_schema_change is fail") }}
  {% endif %}
{% endmacro %}


{#- Make the indexes of the config of a model, each once. -#}
{% macro make_indexes(relation) %}
  {% for one in config.get('indexes', []) %}
    {% set columns = one['columns'] %}
    {% set index = (relation.identifier ~ '_' ~ columns | join('_'))[:55] ~ ('_key' if one.get('unique') else '_idx') %}
    {% call statement('pgtrickle_index') -%}
      create {% if one.get('unique') %}unique {% endif %}index if not exists {{ adapter.quote(index) }}
          on {{ relation }} using {{ one.get('type', 'btree') }}
          ({% for column in columns %}{{ adapter.quote(column) }}{{ ', ' if not loop.last }}{% endfor %})
    {%- endcall %}
  {% endfor %}
{% endmacro %}
